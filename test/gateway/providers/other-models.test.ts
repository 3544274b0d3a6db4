import { maybe } from '../../../domain/sql';
import { isOtherModel } from '../../../gateway/stages/other-models';
import { gatewayKey, message, post } from '../../support/gateway';
import { until } from '../../support/until';
import { completion, hello, openKind, spoken, upstream, world } from './kinded';

// Answers of another model than was asked.

test.each([
  ['gpt-5.4-2026-03-01', ['gpt-5.4', 'prod-54'], false],
  ['gpt-4o', ['gpt-4o-2024-08-06'], false],
  ['claude-opus-5-5', ['eu.anthropic.claude-opus-5-5-v1:0'], false],
  ['accounts/fireworks/models/kimi-k3', ['kimi-k3'], false],
  ['models/gemini-3.8-flash', ['google/gemini-3.8-flash'], false],
  ['', ['gpt-4o'], false],
  ['/', ['gpt-4o'], false],
  ['deepseek-v4-pro', ['claude-opus-5-5'], true],
  ['accounts/fireworks/models/kimi-k3', ['firerouter/auto'], true],
  ['gpt-4o-mini', ['o4-mini'], true],
  // A sibling begins with the whole name.
  ['gpt-5.4-mini', ['gpt-5.4'], true],
  ['gpt-5.4', ['gpt-5.4-mini'], true],
  ['gpt-5.4-pro-2026-03-05', ['gpt-5.4'], true],
  ['claude-sonnet-5-5', ['claude-sonnet-5'], true],
  ['claude-sonnet-4-5-20250929', ['claude-sonnet-4'], true],
  ['gemini-3.8-flash-lite', ['models/gemini-3.8-flash'], true],
  ['gemini-3.8-flash-cyber', ['gemini-3.8-flash'], true],
  ['qwen3-32b', ['qwen3'], true],
  // What providers add to the very model.
  ['claude-sonnet-4-5-20250929', ['claude-sonnet-4-5'], false],
  ['gpt-oss-120b', ['openai.gpt-oss-120b-1:0'], false],
  ['gpt-oss-120b', ['openai/gpt-oss-120b'], false],
  ['grok-4-0709', ['grok-4'], false],
  ['mistral-large-2512', ['mistral-large-latest', 'mistral-large'], false],
  ['gemini-2.0-flash-001', ['gemini-2.0-flash'], false],
  ['llama3.2:latest', ['llama3.2'], false],
  [
    'anthropic/claude-4.5-sonnet-20250929',
    ['anthropic/claude-sonnet-4.5', 'claude-4.5-sonnet'],
    false,
  ],
  ['deepseek-v4-pro', ['deepseek-v4-pro-20260101'], false],
])('%j is a stranger to %j: %s', (answered, names, is_one) => {
  expect(isOtherModel(answered, names)).toBe(is_one);
});

async function eventOf(request_id: unknown) {
  const read = () =>
    maybe<{ payload: { answered_model?: string; model: string } }>(
      world.api.db,
      "select payload from events where type = 'request.completed' and request_id = :request_id",
      { request_id },
    );
  await until(async () => (await read()) !== undefined);
  return (await read())?.payload;
}

const named = (model: string) => JSON.stringify({ ...JSON.parse(completion), model });
const chunk = (model: string) =>
  `data: ${JSON.stringify({ ...JSON.parse(named(model)), object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: 'stop' }] })}\n\ndata: [DONE]\n\n`;

test.each([
  ['another', 'another'],
  ['the-model-2026-01-01', undefined],
  ['an\u0000other\ud800', 'an?other?'],
])('an answer of %j is told as %j, whole and in a stream', async (model, answered_model) => {
  const warned: unknown[] = [];
  const url = await openKind({ kind: 'openai' }, '/base', (line) => warned.push(line));
  const caller = await gatewayKey(world.api, world.org.org_id);
  for (const stream of [false, true]) {
    if (stream) upstream.play([chunk(model)]);
    else upstream.play([named(model)], 'application/json');
    const body = stream ? { ...hello, stream } : hello;
    const { status, headers } = await post(`${url}/v1/chat/completions`, caller, body);
    expect(status).toBe(200);
    const payload = await eventOf(headers['x-svc-request-id']);
    expect([stream, payload?.model, payload?.answered_model]).toEqual([
      ...[stream, 'the-model', answered_model],
    ]);
  }
  // A line for each name, once.
  const lines =
    answered_model === undefined ? [] : [{ target: 't', model: 'the-model', answered_model }];
  expect(warned).toEqual(lines);
});

test('a provider that lends a name on the other wire is told of too', async () => {
  const url = await openKind({ kind: 'deepseek', shape: 'anthropic' });
  const caller = await gatewayKey(world.api, world.org.org_id);
  upstream.play([spoken.replace('what-it-says', 'deepseek-v4-pro')], 'application/json');
  const body = message('Hello', { model: 'the-model' });
  const { status, headers } = await post(`${url}/v1/messages`, caller, body);
  expect(status).toBe(200);
  const payload = await eventOf(headers['x-svc-request-id']);
  expect(payload?.answered_model).toBe('deepseek-v4-pro');
});

test('a router is refused as long as nobody has priced it', async () => {
  const models = ['firerouter/auto'];
  const url = await openKind({ kind: 'fireworks', models });
  const caller = await gatewayKey(world.api, world.org.org_id);
  upstream.play([completion], 'application/json');
  const { status, text } = await post(`${url}/v1/chat/completions`, caller, {
    ...hello,
    model: 'firerouter/auto',
  });
  expect([status, JSON.parse(text).error.code]).toEqual([422, 'model_not_priced']);
  expect(upstream.arrived).toEqual([]);
});
