import { chunk, end, heard } from './chunks';
import { guardedBy } from './guarded';

const filter = { blocked_terms: ['project apollo'] };
const blocking = guardedBy({ 'dlp-filter': filter });
const redacting = guardedBy({ 'dlp-filter': { ...filter, action: 'redact' } });

// What may stand in the place of a term's blank: nothing, and what nobody sees.
const hidden = [
  '',
  '\u0085',
  '\u200b',
  '\u2060',
  '\u00ad',
  '\ufeff',
  '\u180e',
  '\u3164',
  '\u115f',
  '\u0000',
  '&#8203;',
  '&shy;',
  '%E2%80%8B',
  '&#133;',
  // Their neighbours: other characters and other ways to write them.
  '\u0007',
  '\u034f',
  '\u2800',
  '\uffa0',
  '\u{e0020}',
  ' \u200b\n\u0085\t',
  '\u2028',
  '\u3000',
  '&#x200B;',
  '&#0000008203;',
  '&ZeroWidthSpace;',
  '&NoBreak;',
  '&lrm;',
  '&hairsp;',
  '&NonBreakingSpace;',
  '&ic;',
  '%C2%AD',
  '%EF%BB%BF',
  '%F3%A0%80%A0',
  '%25E2%2580%258B',
  '\\u200b',
  '\\u{200b}',
  '\\\\u200b',
  '\\x85',
];
const texts = hidden.map((blank) => `project${blank}apollo`);

const asked = (content: string) =>
  JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] });
const answered = (content: string) =>
  JSON.stringify({ id: 'c', choices: [{ index: 0, message: { role: 'assistant', content } }] });

test.each(texts)('%j is found as the term in a request', async (text) => {
  await expect(blocking.request('chat', asked(`about ${text}, please`))).rejects.toMatchObject({
    code: 'input_blocked',
    message: expect.stringContaining('blocked_terms[0]'),
  });
  const input = JSON.stringify({ model: 'm', input: `about ${text}` });
  await expect(blocking.request('responses', input)).rejects.toMatchObject({ status: 409 });
});

test.each(texts)('%j is found as the term in a whole answer', async (text) => {
  expect(await blocking.answer('chat', answered(`about ${text}`))).toMatchObject({
    violation: { policy: 'dlp-filter', rule: 'blocked_terms[0]' },
  });
  const { text: left = '' } = await redacting.answer('chat', answered(`about ${text}!`));
  expect(JSON.parse(left).choices[0].message.content).toBe('about [redacted]!');
});

test.each(texts)('%j is found as the term in a stream, wherever it is split', (text) => {
  const said = `about ${text}!`;
  for (let at = 1; at < said.length; at += 1) {
    const pieces = [said.slice(0, at), said.slice(at)].map((content) => chunk({ content }));
    const blocked = blocking.stream('chat', [...pieces, ...end]);
    expect(blocked.violation).toMatchObject({ rule: 'blocked_terms[0]' });
    expect('about ').toContain(heard(blocked.text).content[0]);
    const { content } = heard(redacting.stream('chat', [...pieces, ...end]).text);
    expect(content[0]).toBe('about [redacted]!');
  }
});

test('a character at a time, no part of a term is given on', () => {
  for (const text of texts) {
    const pieces = [...`about ${text}!`].map((content) => chunk({ content }));
    const { content } = heard(redacting.stream('chat', [...pieces, ...end]).text);
    expect(content[0]).toBe('about [redacted]!');
  }
});

test.each(['therapist', 'pro ject apollo', 'project-apollo', 'project_apollo', 'project apoll'])(
  '"%s" is another word than the term',
  async (text) => {
    await blocking.request('chat', asked(text));
    const pieces = [...text].map((content) => chunk({ content }));
    const { content } = heard(blocking.stream('chat', [...pieces, ...end]).text);
    expect(content[0]).toBe(text);
  },
);

test('a term without a blank is not found over one', async () => {
  const { request } = guardedBy({ 'dlp-filter': { blocked_terms: ['therapist'] } });
  await request('chat', asked('the rapist'));
  await expect(request('chat', asked('the\u200brapist'))).rejects.toMatchObject({ status: 409 });
});

test('a blank of a term may be written with any white space', async () => {
  for (const term of ['project\u3000apollo', 'project\u0085apollo', ' project \n apollo ']) {
    const { request } = guardedBy({ 'dlp-filter': { blocked_terms: [term] } });
    for (const text of ['project apollo', 'projectapollo', 'Project\u200bApollo'])
      await expect(request('chat', asked(text))).rejects.toMatchObject({ status: 409 });
  }
});

const firewall = (tools: object) => guardedBy({ 'agent-firewall': { tools } });
const offering = (name: string) =>
  JSON.stringify({ model: 'm', messages: [], tools: [{ type: 'function', function: { name } }] });
const calling = (name: string) =>
  JSON.stringify({ choices: [{ message: { tool_calls: [{ id: 'x', function: { name } }] } }] });

const pretenders = [
  'ｇｅｔ_secret',
  'get<U+200B>_secret'.replace('<U+200B>', '\u200b'),
  ' get_secret',
  'get_secret\n',
  'GET_SECRET',
  'get_ſecret',
  'get\u00ad_secret',
  '\ufeffget_secret',
  'ɢet_secret',
  'get_secrеt',
  'get secret',
  'get_secret\u0000',
];

test.each(pretenders)('the tool %j is refused, offered and called', async (name) => {
  const { request, answer, stream } = firewall({ deny: ['get_secret'] });
  await expect(request('chat', offering(name))).rejects.toMatchObject({ status: 409 });
  expect(await answer('chat', calling(name))).toMatchObject({
    violation: { policy: 'agent-firewall' },
  });
  const called = [...name].map((piece) =>
    chunk({ tool_calls: [{ index: 0, function: { name: piece } }] }),
  );
  expect(stream('chat', [...called, ...end])).toMatchObject({
    violation: { policy: 'agent-firewall' },
  });
});

test('names are folded on both sides', async () => {
  for (const pattern of ['ｇｅｔ_*', ' get_secret ', 'GET\u200b_secret']) {
    const denied = firewall({ deny: [pattern] });
    await expect(denied.request('chat', offering('get_secret'))).rejects.toMatchObject({
      message: expect.stringContaining('tools.deny[0]'),
    });
    await firewall({ allow: [pattern] }).request('chat', offering('get_secret'));
  }
});

test('a name of other characters is refused even if nothing is denied', async () => {
  const { request } = firewall({});
  await request('chat', offering('Get_secret.v2:a/b-c'));
  for (const name of ['wetter_münchen', 'get weather', 'get*', 'ｇｅｔ']) {
    await expect(request('chat', offering(name))).rejects.toMatchObject({
      message: expect.stringContaining('tools.name'),
    });
  }
});
