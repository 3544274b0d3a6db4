import fc from 'fast-check';
import { chatTalk } from '../../../gateway/policy/chat-talk';
import { checkJson, checkText, createDlp, type Dlp } from '../../../gateway/policy/dlp';
import { createInspector } from '../../../gateway/policy/inspector';
import { decidedText, Strand } from '../../../gateway/policy/strand';
import { openStreamGuard } from '../../../gateway/policy/stream-guard';
import { watchText } from '../../../gateway/policy/watchers';
import { type Frame, lastFrame, newSseState, readFrames } from '../../../gateway/wire/sse';
import { cpuMsOf, leastOf } from '../../support/cpu';

const both: ('input' | 'output')[] = ['input', 'output'];
const nothing = { stages: both, blocked_terms: [], detect_patterns: [] };

function dlpOf(more: object, action: 'block' | 'redact' = 'block'): Dlp {
  return createDlp({ ...nothing, action, ...more });
}

/** What is found in a text, as it stands there. */
function found(text: string, more: object): string[] {
  const { matches } = createInspector({ ...nothing, action: 'block', ...more }).look(text, 0, true);
  return [...new Set(matches.map(({ start, end }) => text.slice(start, end)))];
}

test.each([
  ['in another case', 'the PROJECT Apollo', 'PROJECT Apollo'],
  ['over a line end', 'project \r\n\tapollo', 'project \r\n\tapollo'],
  ['inside a word', 'xproject apollos', 'project apollo'],
  ['with soft hyphens and joiners', 'pro\u00adject ap\u200dol\ufefflo', undefined],
  ['in full width', '\uff50\uff52\uff4f\uff4a\uff45\uff43\uff54\u3000apollo', undefined],
  ['in mathematical letters', '\u{1d429}\u{1d42b}\u{1d428}\u{1d423}ect apollo', undefined],
  ['with a ring and a dot', 'pr\u00f6je\u0307ct ap\u00f3llo', undefined],
  ['escaped as JSON', '\\u0050roject\\u0020apollo', undefined],
  ['escaped as JSON in JSON', '\\\\u0050roject\\\\napollo', undefined],
  ['escaped as code', '\\x70roject \\u{61}pollo', undefined],
  ['escaped as in a URL', '%70roject%20%61pollo', undefined],
  ['escaped as HTML', '&#112;roject &#x61;pollo', undefined],
  ['escaped as HTML, carelessly', '&#112roject &#x061pollo', undefined],
  ['with the spaces of HTML', 'project&nbsp;apollo', undefined],
  ['with HTML in HTML', 'project&amp;nbsp;apollo', undefined],
  ['escaped twice as in a URL', '%2570roject%2520apollo', undefined],
  ['with an escape in an escape', '\\u005cu0070roject apollo', undefined],
  ['with an entity in percents', '%26%23112;roject apollo', undefined],
  ['in octal', '\\160roject apollo', undefined],
  ['as in a form', 'project+apollo', undefined],
  ['as in a form, escaped', '%70roject+%61pollo', undefined],
  ['with control characters', 'p\0roject\x01 apol\x7flo', undefined],
])('a term is found %s', (_, text, expected) => {
  expect(found(text, { blocked_terms: ['Project  Apollo'] })).toEqual([expected ?? text]);
});

test.each([
  ['stra\u00dfe', 'STRASSE'],
  ['STRASSE', 'stra\u00dfe'],
  ['\u03c3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2', '\u03a3\u0399\u03a3\u03a5\u03a6\u039f\u03a3'],
  ['\u79d8\u5bc6', '\u6700\u9ad8\u79d8\u5bc6\u3067\u3059'],
  ['\uac00', 'x\uac00y'],
  ['caf\u00e9', 'cafe'],
])('the term %s is found in %s', (term, text) => {
  expect(found(text, { blocked_terms: [term] })).toHaveLength(1);
});

test('letters of other scripts that a mark changes are told apart', () => {
  expect(found('\u304b', { blocked_terms: ['\u304c'] })).toEqual([]);
  expect(found('\uac01', { blocked_terms: ['\uac00'] })).toEqual([]);
});

test('of many terms each is found, the longest first, in any order of the list', () => {
  const words = fc.array(fc.stringMatching(/^[ab]{1,4}$/), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(words, fc.stringMatching(/^[abc]{0,30}$/), (blocked_terms, text) => {
      const is_found = found(text, { blocked_terms }).length > 0;
      return is_found === blocked_terms.some((term) => text.includes(term));
    }),
  );
});

const hostile = {
  digits: '1 '.repeat(50_000),
  accounts: 'DE89 '.repeat(20_000),
  addresses: 'a@'.repeat(50_000),
  domains: `x@${'a.'.repeat(50_000)}`,
  backslashes: '\\'.repeat(100_000),
  percents: '%4'.repeat(50_000),
  keys: '-----BEGIN PRIVATE KEY-----'.repeat(4_000),
  letters: `${'a'.repeat(100_000)}!`,
  invisible: `project${'\u200b'.repeat(100_000)}`,
};

test.each(Object.entries(hostile))('a hostile text of %s takes linear time', async (_, text) => {
  const own = { name: 'loop', pattern: '(a+)+$', max_length: 64 };
  const every = ['email', 'credit_card', 'us_ssn', 'iban', 'api_key', 'jwt', 'private_key', own];
  const dlp = dlpOf({ blocked_terms: ['project apollo'], detect_patterns: every });
  const costs = () => cpuMsOf(() => checkJson(dlp, JSON.stringify({ content: text })));
  expect(await leastOf(3, 15_000, costs)).toBeLessThan(15_000);
});

const rules = {
  blocked_terms: ['project apollo', 'apollo eleven'],
  detect_patterns: [
    'email',
    'credit_card',
    'us_ssn',
    'iban',
    'api_key',
    'jwt',
    'private_key',
    { name: 'ticket', pattern: 'OPS-\\d{3}', max_length: 8 },
  ],
};
function pem(body: string): string {
  return `-----BEGIN RSA PRIVATE KEY-----\n${body}\n-----END RSA PRIVATE KEY-----`;
}

const samples = fc
  .array(
    fc.constantFrom(
      'project',
      ' ',
      'apollo',
      'Apollo ',
      'eleven',
      'a@b.org',
      '@',
      '4111 1111',
      ' 1111 1111',

      'OPS-',
      '123',
      'x',
      '\u200b',
      '\\u0061pollo',
      '123-45-',
      '6789',
      '\ud83d\udc4b',
      '.',
      '\\',
      'sk-',
      'abcdefghij',
      'eyJabcdefgh',
      'DE89 3704 0044',
      ' 0532 0130 00',
      '-----BEGIN ',
      'PRIVATE KEY',
      '-----',
      '-----END ',
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

/** A text in pieces: what is given on, or undefined where it is blocked. */
function streamed(dlp: Dlp, pieces: string[]): { given: string; rule: string | undefined } {
  const strand = new Strand(dlp.inspector, dlp.redacts);
  const waiting: ReturnType<Strand['push']>[] = [];
  let given = '';
  let rule: string | undefined;
  for (const [at, piece] of [...pieces, ''].entries()) {
    waiting.push(strand.push(piece));
    rule ??= strand.look(at === pieces.length);
    while (rule === undefined && waiting[0] && strand.safe >= waiting[0].to) {
      given += decidedText(waiting.shift() as (typeof waiting)[number]);
    }
  }
  return { given, rule };
}

function cut(text: string, places: number[]): string[] {
  const at = [0, ...places.map((place) => place % (text.length + 1)), text.length].sort(
    (a, b) => a - b,
  );
  return at.slice(1).map((end, index) => text.slice(at[index], end));
}

test('however a text is cut, a stream is blocked where the whole is, and gives on nothing of the first match', () => {
  const dlp = dlpOf(rules);
  fc.assert(
    fc.property(samples, fc.array(fc.nat(), { maxLength: 8 }), (text, places) => {
      const whole = checkText(dlp, text);
      const { given, rule } = streamed(dlp, cut(text, places));
      expect(rule === undefined).toBe(whole.rule === undefined);
      if (rule === undefined) expect(given).toBe(text);
      else {
        const { matches } = dlp.inspector.look(text, 0, true);
        expect(given.length).toBeLessThanOrEqual(Math.min(...matches.map(({ start }) => start)));
      }
    }),
    { numRuns: 2_000 },
  );
});

test('however a text is cut, a stream is redacted as the whole is', () => {
  const dlp = dlpOf(rules, 'redact');
  fc.assert(
    fc.property(samples, fc.array(fc.nat(), { maxLength: 8 }), (text, places) => {
      expect(streamed(dlp, cut(text, places)).given).toBe(checkText(dlp, text).text);
    }),
    { numRuns: 2_000 },
  );
});

test.each([
  ['a key of few bytes', `a ${pem('A'.repeat(64))} b`],
  ['an address that an escape without meaning ends', 'a@b.org\\x 1111 1111'],
  ['a key longer than what is held', `${pem('A'.repeat(20_000))}x`],
  ['a key longer than what is held, and another address', `${pem('A'.repeat(20_000))}x a@b.org.`],
])('in a stream, %s is redacted as in the whole, wherever it is cut', (_, text) => {
  const dlp = dlpOf(rules, 'redact');
  const whole = checkText(dlp, text).text;
  expect(whole).toContain('[redacted]');
  for (let at = 0; at <= Math.min(text.length, 64); at += 1) {
    for (const place of [at, text.length - at]) {
      const { given, rule } = streamed(dlp, cut(text, [place]));
      // What goes on without end blocks, as no more of it can be held.
      expect(given).toBe(rule === undefined ? whole : '');
    }
  }
});

test('wherever a stream of bytes is cut in two, no part of the phrase leaves the guard', () => {
  const dlp = dlpOf({ blocked_terms: ['project apollo'] });
  const frames = ['Hello ', 'to Pro', 'ject', ' A', 'pollo', ' you'].map(
    (content) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\r\n\r\n`,
  );
  const bytes = Buffer.from(frames.join(''));
  for (let at = 0; at <= bytes.length; at += 1) {
    const guard = openStreamGuard([watchText(dlp, chatTalk)], dlp);
    const state = newSseState();
    const given = [bytes.subarray(0, at), bytes.subarray(at)].map((part) => {
      const read: Frame[] = readFrames(state, part);
      return guard.push(read);
    });
    given.push(guard.end(lastFrame(state)));
    expect(Buffer.concat(given).toString().trimEnd()).toBe(frames[0]?.trimEnd());
    expect(guard.violation()).toEqual({ policy: 'dlp-filter', rule: 'blocked_terms[0]' });
  }
});

test('redaction of a JSON text leaves every other byte, and takes out the odds that tell the words again', async () => {
  const dlp = dlpOf({ blocked_terms: ['project apollo'] }, 'redact');
  const odds = '{"content":[{"token":"project"},{"token":" apollo"}]}';
  const text = `{ "n":1.0e2,"choices":[{"message":{"content":"a \\u0050roject apollo\\n"},"logprobs":${odds}}],"echo":"project apollo"}`;
  const { text: given } = await checkJson(dlp, text, new Set(['echo']));
  expect(given).toBe(
    `{ "n":1.0e2,"choices":[{"message":{"content":"a [redacted]\\n"},"logprobs":null}],"echo":"project apollo"}`,
  );
});

test('labels and bytes in Base64 are left alone', async () => {
  const dlp = dlpOf({ blocked_terms: ['user', 'aaaa'] });
  const text = JSON.stringify({ role: 'user', type: 'user', id: 'user', data: 'a'.repeat(2_000) });
  expect(await checkJson(dlp, text)).toEqual({ text });
  const sealed = JSON.stringify({ google: { thought_signature: 'a'.repeat(2_000) } });
  expect(await checkJson(dlp, sealed)).toEqual({ text: sealed });
  // What only begins like them is read.
  const labels = [{ id: `user${'.'.repeat(200)}` }, { metadata: { id: 'user' } }];
  for (const read of labels) {
    expect(await checkJson(dlp, JSON.stringify(read))).toEqual({ rule: 'blocked_terms[0]' });
  }
  for (const read of [{ data: `${'a'.repeat(2_000)} b` }, { content: 'a'.repeat(2_000) }]) {
    expect(await checkJson(dlp, JSON.stringify(read))).toEqual({ rule: 'blocked_terms[1]' });
  }
});
