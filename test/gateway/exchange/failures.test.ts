import type { ServerResponse } from 'node:http';
import { chat, lastCharge, post } from '../../support/gateway';
import { first, openRouted, path, second, world } from './routed';
import { data, delta, finish } from './streamed';

// What a provider says in place of an answer, and what follows: who is told, who is asked next, and
// what counts against the target.

type Answer = (res: ServerResponse) => void;

const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  (res) =>
    res
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(body));

const events =
  (...pieces: string[]): Answer =>
  (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) res.write(piece);
    res.end();
  };

const error = (more: object) => ({ error: { message: 'x', type: 'server_error', ...more } });
const role = { choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] };

const charge = () => lastCharge(world, world.org.org_id);
const ask = (url: string, more: object = {}) => post(url + path, world.key, chat('Hello', more));

test.each<[string, Answer, boolean]>([
  ['an error in a 200', json(200, error({ code: 502 })), false],
  ['nothing in a 200', json(200, {}), false],
  ['an error before any content', events(data(role), data(error({}))), true],
  ['a stream that ends behind its role', events(data(role), 'data: [DONE]\n\n'), true],
  ['a stream without an event', events(''), true],
  [
    'an account without money, as 400',
    json(400, {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: 'Your credit balance is too low to access the API.',
      },
    }),
    false,
  ],
  [
    'an account without quota, as 403',
    json(403, error({ code: 'insufficient_user_quota' })),
    false,
  ],
  [
    'a project without access, as 403',
    json(403, error({ message: 'Project `proj_1` does not have access to model `m`.' })),
    false,
  ],
  ['an account without quota, as 429', json(429, error({ code: 'insufficient_quota' })), false],
  ['a rate limit within a 200', json(200, error({ type: 'rate_limit_error' })), false],
])('%s is served by the next target, and charged once', async (_, answer, stream) => {
  const url = await openRouted();
  first.answer = answer;
  if (stream)
    second.answer = events(data(delta('Hi'), finish({ usage: told })), 'data: [DONE]\n\n');
  const { status, text } = await ask(url, { stream });
  expect([status, text.includes('Hi'), second.asked.length]).toEqual([200, true, 1]);
  expect(await charge()).toMatchObject({ status: 'settled', outcome: 'completed' });
});

const told = { prompt_tokens: 1_000, completion_tokens: 64, total_tokens: 1_064 };

test.each<[string, Answer]>([
  ['within a 200', json(200, error({ code: 400, message: 'Too long.' }))],
  ['as a status', json(400, error({ message: 'Too long.' }))],
  [
    'that repeats words of an account',
    json(400, error({ message: 'Invalid value: "your credit balance is too low".' })),
  ],
])('a mistake of the client %s is told, and nobody else is asked', async (_, answer) => {
  const url = await openRouted();
  first.answer = answer;
  const { status } = await ask(url);
  expect([status, second.asked]).toEqual([400, []]);
  expect(await charge()).toMatchObject({ status: 'released', actual_cost_nanos: 0n });
});

test.each<[string, number, unknown, number, string]>([
  ['a list', 400, [{ error: { code: 400, message: 'Too long.' } }], 400, 'Too long.'],
  ['an object that is an error', 400, { object: 'error', message: 'Too long.' }, 400, 'Too long.'],
  ['a message', 422, { message: 'Too long.' }, 422, 'Too long.'],
  ['a detail', 400, { detail: 'Too long.' }, 400, 'Too long.'],
  [
    'a list of details',
    422,
    { detail: [{ loc: ['body', 'n'], msg: 'Too large.', type: 'v' }] },
    422,
    'body.n: Too large.',
  ],
  ['a text', 400, { error: 'Too long.' }, 400, 'Too long.'],
  ['a list of errors', 400, { errors: [{ message: 'Too long.' }] }, 400, 'Too long.'],
  ['a capital', 400, { Message: 'Too long.' }, 400, 'Too long.'],
  [
    'a moderation, as 403',
    403,
    { error: { code: 403, message: 'Flagged.', metadata: { reasons: ['x'], flagged_input: 'y' } } },
    403,
    'Flagged.',
  ],
])(
  'the reason of a refusal reaches the client out of %s',
  async (_, status, body, told_as, reason) => {
    const url = await openRouted();
    first.answer = json(status, body);
    second.answer = json(status, body);
    const answer = await ask(url);
    expect(answer.status).toBe(told_as);
    expect(JSON.parse(answer.text).error.message).toBe(reason);
  },
);

test.each<[string, Answer]>([
  ['quota', json(429, error({ code: 'insufficient_quota', message: 'check your plan' }))],
  ['money', json(402, error({ message: 'check your plan' }), { 'x-should-retry': 'false' })],
  ['key', json(401, error({ message: 'check your plan' }))],
])(
  'a gateway whose account lacks %s everywhere says 502 of its own, and that no repeat helps',
  async (_, answer) => {
    const url = await openRouted();
    first.answer = answer;
    second.answer = answer;
    const { status, text, headers } = await ask(url);
    expect([status, JSON.parse(text).error.code]).toEqual([502, 'upstream_failed']);
    expect(text).not.toContain('plan');
    expect(headers['x-should-retry']).toBe('false');
  },
);

test('what a provider says of repeats reaches the client with an error of ours', async () => {
  const url = await openRouted();
  const busy: Answer = (res) =>
    res.writeHead(503, { 'x-should-retry': 'false', 'retry-after': '7' }).end('Busy');
  first.answer = busy;
  second.answer = busy;
  const { status, headers } = await ask(url);
  expect([status, headers['x-should-retry'], headers['retry-after']]).toEqual([503, 'false', '7']);
});

test.each<[string, Answer, boolean]>([
  ['an error within a 200', json(200, error({ code: 502 })), false],
  ['an error before any content', events(data(role), data(error({}))), true],
  ['text and then an error', events(data(delta('Hi')), data(error({}))), true],
  ['an account without money', json(402, error({})), false],
])('%s counts against its target, which is left after three', async (_, answer, stream) => {
  const url = await openRouted({
    circuit_breaker: { enabled: true, failures: 3, open_ms: 60_000 },
  });
  first.answer = answer;
  for (let turn = 0; turn < 5; turn += 1) await ask(url, { stream });
  expect(first.asked).toHaveLength(3);
});

test("a client's mistake within a 200 does not count against its target", async () => {
  const url = await openRouted({
    circuit_breaker: { enabled: true, failures: 3, open_ms: 60_000 },
  });
  first.answer = json(200, error({ code: 400 }));
  for (let turn = 0; turn < 5; turn += 1) expect((await ask(url)).status).toBe(400);
  expect(first.asked).toHaveLength(5);
});

const denied = 'The caller does not have permission to execute the specified operation';
const violates = 'Content violates usage guidelines.';
const uncached =
  'You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.';
const not_yours = 'You do not have permission to access the File abc or it may not exist.';

test.each<[string, unknown, string]>([
  ['Bedrock: a point of a cache', { message: uncached }, uncached],
  [
    'xAI: a prompt',
    { code: denied, error: `${violates} Team: t-1, API key ID: k-1, Model: m, Failed check: X` },
    violates,
  ],
  [
    'xAI: a prompt, by its code',
    { code: 'permission-denied', error: `${violates} Team: t-1` },
    violates,
  ],
  [
    'Google: a file',
    { error: { code: 403, message: not_yours, status: 'PERMISSION_DENIED' } },
    not_yours,
  ],
  [
    'Google: a cache',
    [{ error: { message: 'CachedContent not found (or permission denied)', status: 'X' } }],
    'CachedContent not found (or permission denied)',
  ],
  [
    'Google: a bucket',
    {
      error: {
        message: 'svc@k-1.iam.gserviceaccount.com does not have storage.objects.get access to it.',
        status: 'PERMISSION_DENIED',
      },
    },
    'The provider has no access to a file that the request names.',
  ],
])('a 403 of a request shuts its target for nobody else (%s)', async (_, body, told_as) => {
  const url = await openRouted({
    circuit_breaker: { enabled: true, failures: 3, open_ms: 60_000 },
  });
  first.answer = json(403, body, { 'x-amzn-errortype': 'AccessDeniedException' });
  for (let turn = 0; turn < 5; turn += 1) {
    const { status, text } = await ask(url);
    expect([status, JSON.parse(text).error.message]).toEqual([403, told_as]);
    // Names of the account are for nobody.
    expect(text).not.toMatch(/t-1|k-1/);
  }
  expect([first.asked.length, second.asked.length]).toEqual([5, 0]);
});

test('an error without an end is bounded by its length', async () => {
  const url = await openRouted();
  const endless: Answer = (res) => {
    res.writeHead(500, { 'content-type': 'application/json' });
    const more = () => {
      while (!res.destroyed && res.write(Buffer.alloc(65_536, 'x')));
    };
    res.on('drain', more);
    more();
  };
  first.answer = endless;
  second.answer = endless;
  const { status, text } = await ask(url);
  expect([status, JSON.parse(text).error.code]).toEqual([502, 'upstream_failed']);
});

test('an error without an end is bounded by its time: the next target serves', async () => {
  const url = await openRouted();
  first.answer = (res) => void res.writeHead(500).write('{"error":');
  expect((await ask(url)).status).toBe(200);
});
