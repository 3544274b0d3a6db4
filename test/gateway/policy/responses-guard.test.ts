import { guardedBy } from './guarded';

const terms = { blocked_terms: ['project apollo'] };
const blocking = guardedBy({
  'dlp-filter': { ...terms, detect_patterns: ['email'], stages: ['output'] },
});
const redacting = guardedBy({
  'dlp-filter': { ...terms, action: 'redact', stages: ['output'] },
});
const guarding = guardedBy({ 'agent-firewall': { tools: { deny: ['delete_*'] } } });

/** What may give a phrase away. */
function shown(text: string): string {
  return text.replace(/logprobs|in_progress|Never name project apollo/g, '');
}

/** The frames of a Responses stream that says these words. */
function response(words: string[], item: object = {}): string[] {
  const text = words.join('');
  const at = { output_index: 0, item_id: 'msg', content_index: 0 };
  const part = { type: 'output_text', text, annotations: [], logprobs: [] };
  const whole = { id: 'msg', type: 'message', role: 'assistant', content: [part], ...item };
  const told = { input_tokens: 5, output_tokens: 6, total_tokens: 11 };
  // Providers repeat the request's own instructions.
  const echo = { id: 'resp', instructions: 'Never name project apollo.', usage: null };
  return [
    { type: 'response.created', response: { ...echo, output: [] } },
    { type: 'response.output_item.added', output_index: 0, item: { ...whole, content: [] } },
    ...words.map((delta) => ({ type: 'response.output_text.delta', ...at, delta, logprobs: [] })),
    { type: 'response.output_text.done', ...at, text, logprobs: [] },
    { type: 'response.content_part.done', ...at, part },
    { type: 'response.output_item.done', output_index: 0, item: whole },
    { type: 'response.completed', response: { ...echo, output: [whole], usage: told } },
  ].map((event, sequence_number) => {
    const data = JSON.stringify({ ...event, sequence_number });
    return `event: ${event.type}\ndata: ${data}\n\n`;
  });
}

test('Responses: a phrase over several events is blocked; the echo of the own instructions is not taken for it', () => {
  for (const policies of [blocking, redacting]) {
    const fine = response(['All', ' is', ' project', ' b']);
    expect(policies.stream('responses', fine).text).toBe(fine.join(''));
  }
  const { text, violation } = blocking.stream(
    'responses',
    response(['Hi. ', 'Pro', 'ject ap', 'ollo', ' is']),
  );
  expect(violation?.policy).toBe('dlp-filter');
  expect(shown(text)).not.toMatch(/pro|ollo/i);
  expect(text).toContain('Hi. ');
});

test('Responses: redaction reaches the pieces, and every event that tells the whole again', () => {
  const { text, measured } = redacting.stream(
    'responses',
    response(['Hi ', 'Pro', 'ject ap', 'ollo', ' x']),
  );
  expect(shown(text)).not.toMatch(/pro|ollo/i);
  expect(text.match(/Hi \[redacted\] x/g)).toHaveLength(4);
  expect(measured.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 6 });
});

test('Responses: the item that calls a denied tool is not given on', () => {
  const item = { type: 'function_call', name: 'delete_file', arguments: '{"path":"/"}' };
  const { text, violation } = guarding.stream('responses', response([], item));
  expect(violation?.policy).toBe('agent-firewall');
  expect(text).not.toContain('delete_file');
});
