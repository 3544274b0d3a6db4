import { randomUUID } from 'node:crypto';
import * as budgets from '../../../domain/ledger/budgets';
import * as constraints from '../../../domain/ledger/constraints';
import * as organizations from '../../../domain/people/organizations';
import { many } from '../../../domain/sql';
import { chat, gatewayKey, post } from '../../support/gateway';
import { until } from '../../support/until';
import { ask, CHAT, gateway, makePoor, topUp, world } from './poor';

// Refusals that somebody who governs wants to know of are events, and a flood of them is few.

interface Refused {
  action: string;
  request_id: string;
  payload: Record<string, unknown>;
}

async function refusedOf(org_id: string): Promise<Refused[]> {
  await until(() => gateway.gateway.events.count() === 0);
  return many<Refused>(
    world.api.db,
    `select action, request_id, payload from events where org_id = :org_id and type = 'request.refused' order by id`,
    { org_id },
  );
}

test('a model that a key may not use is one event with the caller, and a flood of them too', async () => {
  const org = await makePoor();
  const key = await gatewayKey(world.api, org.org_id, { allowed_models: ['gpt-4o'] });
  const call = () => post(gateway.url + CHAT, key, chat('no'), { 'x-request-id': 'mine' });
  const answers = await Promise.all(Array.from({ length: 30 }, call));
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([403]));
  expect(await refusedOf(org.org_id)).toEqual([
    {
      action: 'refused',
      request_id: expect.stringMatching(/^req_/),
      payload: {
        ...{
          code: 'model_not_allowed',
          count: 1,
          family: 'chat_completions',
          model: 'gpt-4o-mini',
        },
        identity_proof_method: 'gateway_key',
        identity_context: expect.objectContaining({ key_id: expect.any(String) }),
      },
    },
  ]);
});

test('so are a budget and a cap, each by itself; want of money has its ticket, and no such event', async () => {
  const poor = await makePoor();
  const { db } = world.api;
  expect((await ask(poor, 'without money', { 'x-svc-hold-ms': '0' })).status).toBe(402);
  await topUp(poor);
  const { id: agent_id } = await organizations.createAgent(db, poor.org_id, 'Agent');
  const cap = { constraint_type: 'responses', provider: 'openai', model_pattern: '*' } as const;
  await constraints.create(
    db,
    { org_id: poor.org_id, agent_id },
    { ...cap, max_value: 1, interval: 'day', enforcement_mode: 'reject' },
  );
  const asAgent = () => ask(poor, randomUUID(), { 'x-svc-agent-id': agent_id });
  expect([(await asAgent()).status, (await asAgent()).status]).toEqual([200, 429]);
  await budgets.create(db, {
    ...{ org_id: poor.org_id, owner_type: 'key', owner_id: poor.key_id, limit_nanos: 1n },
    ...{ window: 'month', on_exceed: 'refuse', thresholds: [100], created_by: null },
  });
  expect((await ask(poor, randomUUID())).status).toBe(403);
  const told = await refusedOf(poor.org_id);
  expect(told.map(({ payload }) => payload.code)).toEqual([
    'usage_constraint_exceeded',
    'key_budget_exceeded',
  ]);
});

test.each([
  ['a\u0000b', 'ab'],
  ['a\ud800b', 'a\ufffdb'],
  [`${'a'.repeat(199)}\u{1f600}`, 'a'.repeat(199)],
])('a model called %j is told as far as a text can be kept', async (model, told) => {
  const org = await makePoor();
  const key = await gatewayKey(world.api, org.org_id, { allowed_models: ['gpt-4o'] });
  expect((await post(gateway.url + CHAT, key, chat('no', { model }))).status).toBe(403);
  const events = await refusedOf(org.org_id);
  expect(events.map(({ payload }) => payload.model)).toEqual([told]);
});
