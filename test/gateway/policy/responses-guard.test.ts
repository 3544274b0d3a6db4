import { lastCharge, openWorld, post, type World } from '../../support/gateway';
import { openScripted, type Scripted } from '../../support/upstream';

let world: World;
let upstream: Scripted;
let blocking: string;
let redacting: string;
let guarding: string;

const terms = { blocked_terms: ['project apollo'] };

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  const target = { base_url: `${upstream.url}/v1` };
  const open = async (policy: object) => {
    const settings = { policies: { chain: Object.keys(policy) }, policy };
    return (await world.openGateway({ settings, target })).url;
  };
  blocking = await open({
    'dlp-filter': { ...terms, detect_patterns: ['email'], stages: ['output'] },
  });
  redacting = await open({ 'dlp-filter': { ...terms, action: 'redact', stages: ['output'] } });
  guarding = await open({ 'agent-firewall': { tools: { deny: ['delete_*'] } } });
});

afterAll(async () => {
  await world.close();
  await upstream.close();
});

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

const asked = { model: 'gpt-4o-mini', input: 'x', stream: true };

test('Responses: a phrase over several events is blocked; the echo of the own instructions is not taken for it', async () => {
  for (const url of [blocking, redacting]) {
    const fine = response(['All', ' is', ' project', ' b']);
    upstream.play(fine);
    expect((await post(`${url}/v1/responses`, world.key, asked)).text).toBe(fine.join(''));
  }
  upstream.play(response(['Hi. ', 'Pro', 'ject ap', 'ollo', ' is']));
  const { text } = await post(`${blocking}/v1/responses`, world.key, asked);
  const events = text.split('\n\n').filter((event) => event !== '');
  expect(events.at(-1)).toMatch(/^event: error\n.*"code":"output_blocked"/);
  expect(shown(text)).not.toMatch(/pro|ollo/i);
  expect(text).toContain('Hi. ');
});

test('Responses: redaction reaches the pieces, and every event that tells the whole again', async () => {
  upstream.play(response(['Hi ', 'Pro', 'ject ap', 'ollo', ' x']));
  const { text } = await post(`${redacting}/v1/responses`, world.key, asked);
  expect(shown(text)).not.toMatch(/pro|ollo/i);
  expect(text.match(/Hi \[redacted\] x/g)).toHaveLength(4);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 6 });
});

test('Responses: the item that calls a denied tool is not given on', async () => {
  const item = { type: 'function_call', name: 'delete_file', arguments: '{"path":"/"}' };
  upstream.play(response([], item));
  const { text } = await post(`${guarding}/v1/responses`, world.key, asked);
  expect(text).toContain('"output_blocked"');
  expect(text).not.toContain('delete_file');
});
