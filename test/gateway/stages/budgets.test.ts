import OpenAI from 'openai';
import * as budgets from '../../../domain/ledger/budgets';
import { one } from '../../../domain/sql';
import { chat, post } from '../../support/gateway';
import {
  ask,
  CHAT,
  decide,
  gateway,
  makePoor,
  type Poor,
  topUp,
  untilWaiting,
  world,
} from './poor';

function makeBudget({ org_id, key_id }: Poor, limit_nanos: bigint, on_exceed: 'refuse' | 'ticket') {
  return budgets.create(world.api.db, {
    org_id,
    owner_type: 'key',
    owner_id: key_id,
    limit_nanos,
    window: 'month',
    on_exceed,
    thresholds: [1, 100],
    created_by: null,
  });
}

test('a call beyond a budget that asks waits for its approval, which raises it by what was missing', async () => {
  const poor = await makePoor();
  await topUp(poor);
  const { id } = await makeBudget(poor, 1n, 'ticket');
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: poor.key });
  const answer = client.chat.completions.create(chat('beyond the month') as never);
  await untilWaiting(poor);
  await topUp(poor);
  expect((await decide(poor, 'approve')).status).toBe(200);
  expect((await answer).choices[0]?.message.content).toBeTruthy();
  const { held } = await one<{ held: bigint }>(
    world.api.db,
    'select held_nanos as held from reservations where org_id = :org_id',
    { org_id: poor.org_id },
  );
  expect(await budgets.get(world.api.db, poor.org_id, id)).toMatchObject({
    raised_nanos: held - 1n,
  });
});

test('a larger budget lets the waiting call through without a verdict', async () => {
  const poor = await makePoor();
  await topUp(poor);
  const { id } = await makeBudget(poor, 1n, 'ticket');
  const answer = ask(poor, 'until the budget grows');
  await untilWaiting(poor);
  await budgets.update(world.api.db, poor.org_id, id, { limit_nanos: 10n ** 12n });
  expect((await answer).status).toBe(200);
});

test('a budget that refuses answers 403 as max_budget does, and names itself', async () => {
  const poor = await makePoor();
  await topUp(poor);
  const { id } = await makeBudget(poor, 1n, 'refuse');
  const { status, text } = await ask(poor, 'refused');
  const { error } = JSON.parse(text);
  expect([status, error.code, error.budget.id]).toEqual([403, 'key_budget_exceeded', id]);
});

test.each([false, true])('x-svc-warning tells of a threshold; stream: %s', async (stream) => {
  const poor = await makePoor();
  await topUp(poor);
  const { id } = await makeBudget(poor, 10n ** 6n, 'refuse');
  const answer = await post(gateway.url + CHAT, poor.key, chat('near the end', { stream }));
  expect(answer.status).toBe(200);
  const told = String(answer.headers['x-svc-warning'] ?? '');
  expect(told).toMatch(
    new RegExp(`^budget ${id} of the key has reached 1 % of 0.001 a month: 0\\.\\d+ used or held`),
  );
});
