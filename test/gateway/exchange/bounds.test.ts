import { many } from '../../../domain/sql';
import { until } from '../../support/until';
import { ask, upstream, world } from './scripted';
import { data, delta, finish } from './streamed';

// What was sent and delivered bounds what a provider can have used: its figures above that are told
// to a person, and not charged.

const usage = (prompt_tokens: number, completion_tokens: number) => ({
  prompt_tokens,
  completion_tokens,
  total_tokens: prompt_tokens + completion_tokens,
});

const choices = [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }];

async function bounded(): Promise<Record<string, unknown>[]> {
  const rows = await many<{ payload: Record<string, unknown> }>(
    world.api.db,
    `select payload from events where type = 'request.bounded' order by id`,
  );
  return rows.map(({ payload }) => payload);
}

test.each<[string, object, number, number, Record<string, unknown>]>([
  ['a prompt', usage(9_000_000_000_000_000, 1), 10_032, 1, {}],
  ['output', usage(1_000, 9_000_000), 1_000, 64, {}],
  ['output of several choices', usage(1_000, 9_000_000), 1_000, 192, { n: 3 }],
  ['both', usage(2 ** 53 - 1, 2 ** 52), 10_032, 64, {}],
  ['a total alone', { total_tokens: 9_000_000 }, 8, 64, {}],
  [
    'cached tokens',
    { ...usage(9_000_000, 1), prompt_tokens_details: { cached_tokens: 8_000_000 } },
    10_032,
    1,
    {},
  ],
])(
  '%s above what is possible is charged at its bound',
  async (_, told, prompt, completion, more) => {
    const before = (await bounded()).length;
    const body = JSON.stringify({ choices, usage: told });
    upstream.play([body], 'application/json');
    const { status, charge } = await ask('chat', more);
    expect(status).toBe(200);
    expect(charge.usage).toMatchObject({ prompt_tokens: prompt, completion_tokens: completion });
    upstream.play([data(delta('Hi'), finish({ usage: told })), 'data: [DONE]\n\n']);
    const streamed = await ask('chat', { ...more, stream: true });
    if (!('n' in more)) expect(streamed.charge.usage).toEqual(charge.usage);
    await until(async () => (await bounded()).length >= before + 2);
    expect((await bounded()).at(-1)).toMatchObject({ target: 'scripted', model: 'gpt-4o-mini' });
  },
);

test('input that the provider adds is bounded by the longest context alone', async () => {
  const content = [{ type: 'file', file: { filename: 'a.pdf' } }];
  const messages = [{ role: 'user', content }];
  upstream.play([JSON.stringify({ choices, usage: usage(300_000, 1) })], 'application/json');
  const { charge } = await ask('chat', { messages });
  expect(charge.usage.prompt_tokens).toBe(300_000);
});

test('without a cap no answer has more tokens than bytes', async () => {
  const body = JSON.stringify({ choices, usage: usage(1_000, 50_000) });
  upstream.play([body], 'application/json');
  const { charge } = await ask('chat', { max_tokens: null });
  expect(charge.usage.completion_tokens).toBe(body.length);
});

test('a model that reasons unseen may have used more than its answer shows', async () => {
  const body = JSON.stringify({ choices, usage: usage(1_000, 50_000) });
  upstream.play([body], 'application/json');
  const { charge } = await ask('chat, reasoning', { max_tokens: null });
  expect(charge.usage.completion_tokens).toBe(50_000);
});

test('one absurd answer makes no debt', async () => {
  upstream.play([JSON.stringify({ choices, usage: usage(9e15, 1) })], 'application/json');
  const { charge } = await ask('chat', { max_tokens: 5 });
  expect(charge.actual_cost_nanos).toBeLessThan(2_000_000n);
});

test.each<[string, Record<string, unknown>, number]>([
  ['none', { max_tokens: undefined }, 16],
  ['null', { max_tokens: null }, 16],
  ['its own', { max_tokens: 40 }, 40],
])(
  'a legacy completion with a cap of %s is sent the cap that bounds its bill',
  async (_, more, cap) => {
    const told = usage(10, 30_000);
    const answer = { choices: [{ index: 0, text: 'Hi', finish_reason: 'length' }], usage: told };
    upstream.play([JSON.stringify(answer)], 'application/json');
    const { status, charge } = await ask('completions', more);
    expect(status).toBe(200);
    expect(charge.usage.completion_tokens).toBe(cap);
    const sent = upstream.arrived.at(-1);
    expect(sent?.body.max_tokens).toBe(cap);
    expect(sent?.text.match(/"max_tokens"/g)).toHaveLength(1);
  },
);
