import { checkJson, createDlp } from '../../../gateway/policy/dlp';
import { chunk, end, head, heard, say } from './chunks';
import { guardedBy } from './guarded';

// Forms that providers use beside the usual ones, and that policies read as their readers do.

const both: ('input' | 'output')[] = ['input', 'output'];
const allowing = guardedBy({ 'agent-firewall': { tools: { allow: ['get_*'] } } });
const denying = guardedBy({ 'agent-firewall': { tools: { deny: ['delete_*'] } } });
const finding = (pattern: string) =>
  guardedBy({ 'dlp-filter': { detect_patterns: [pattern], stages: ['output'] } });

test('a search that a member of its own asks for is a tool that a request offers', async () => {
  const body = { model: 'm', messages: [], web_search_options: {} };
  await expect(allowing.request('chat', JSON.stringify(body))).rejects.toMatchObject({
    status: 409,
  });
  const none = JSON.stringify({ ...body, web_search_options: undefined });
  await expect(allowing.request('chat', none)).resolves.toBeUndefined();
});

test.each([60, 1_500, 6_000])(
  'a token whose header has %d characters is found, and no part of it is given on',
  (length) => {
    const token = `eyJ${'hbGciOi1'.repeat(length / 8)}.eyJzdWIiOiIxIn0.c2ln`;
    const pieces = token.match(/.{1,7}/g) ?? [];
    const words = ['the ', ...pieces, ' end'];
    const { text, violation } = finding('jwt').stream('chat', [head, ...say(words), ...end]);
    expect(violation?.rule).toContain('jwt');
    expect(text).not.toContain('hbGci');
  },
);

test('words that begin as a token does go on as soon as they are none', () => {
  const words = ['key eyes a.ey', 'eJ.b ', 'eyJ', 'ust'];
  const { text, violation } = finding('jwt').stream('chat', [head, ...say(words)]);
  expect(violation).toBeUndefined();
  expect(heard(text).content[0]).toBe('key eyes a.eyeJ.b eyJust');
});

test.each(['[DONE] ', ' [DONE]', '[DONE]\t'])('a stream that ends in %j has ended well', (done) => {
  const pieces = [head, ...say(['fine']), `data: ${done}\n\n`];
  const { text, violation } = finding('email').stream('chat', pieces);
  expect(violation).toBeUndefined();
  expect(text).toContain('fine');
  expect(text).toContain(done.trim());
});

test('an event that is too long to be read is not given on unread, whatever policy is on', () => {
  const whole = chunk({
    tool_calls: [{ index: 0, function: { name: 'delete_all', arguments: 'x'.repeat(17_825_792) } }],
  });
  // As it arrives: in pieces.
  const pieces = whole.match(/.{1,1048576}/gs) ?? [];
  const { text, violation } = denying.stream('chat', [head, ...pieces, ...end]);
  expect(violation).toEqual({ policy: 'agent-firewall', rule: 'unread' });
  expect(text).not.toContain('delete_all');
});

describe('calls of tools that no number tells apart', () => {
  const numbered = (more: object) => (id: string, name: string) =>
    chunk({ tool_calls: [{ id, type: 'function', ...more, function: { name, arguments: '{}' } }] });

  test.each([
    ['without a number', numbered({})],
    ['all with number 0', numbered({ index: 0 })],
  ])('%s are judged each by its own name', (_, call) => {
    const pieces = [head, call('a', 'get_weather'), call('b', 'get_time'), ...end];
    expect(allowing.stream('chat', pieces).violation).toBeUndefined();
    const evil = [head, call('a', 'get_weather'), call('b', 'delete_all'), ...end];
    expect(denying.stream('chat', evil).violation?.rule).toBe('tools.deny[0]');
    expect(allowing.stream('chat', evil).violation?.rule).toBe('tools.allow');
  });

  test('a name in pieces is one name, also if each piece has the id', () => {
    const pieces = [
      head,
      numbered({ index: 0 })('a', 'delete_'),
      numbered({ index: 0 })('a', 'all'),
    ];
    expect(denying.stream('chat', [...pieces, ...end]).violation?.rule).toBe('tools.deny[0]');
  });
});

test("a tool's own argument that is called logprobs stays as it is", async () => {
  const input = { logprobs: [-0.1, -2.3], deep: { logprobs: { a: 1 } } };
  const answer = JSON.stringify({
    content: [{ type: 'tool_use', id: 't', name: 'score', input }],
    logprobs: [{ token: 'x' }],
  });
  const settings = { stages: both, blocked_terms: ['apollo'], detect_patterns: [] };
  const dlp = createDlp({ ...settings, action: 'block' });
  const { text = '' } = await checkJson(dlp, answer, new Set());
  expect(JSON.parse(text)).toEqual({ content: [expect.objectContaining({ input })], logprobs: [] });
});

test("a tool's own argument that is called logprobs stays so in a stream", () => {
  const block = { type: 'tool_use', id: 't', name: 'score', input: { logprobs: [-0.1] } };
  const event = { type: 'content_block_start', index: 0, content_block: block };
  const pieces = [`event: content_block_start\ndata: ${JSON.stringify(event)}\n\n`];
  const { text } = finding('email').stream('messages', pieces);
  expect(text).toContain('"logprobs":[-0.1]');
});
