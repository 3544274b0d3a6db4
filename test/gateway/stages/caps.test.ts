import { randomUUID } from 'node:crypto';
import * as constraints from '../../../domain/ledger/constraints';
import * as organizations from '../../../domain/people/organizations';
import { awayFromDayEnd } from '../../support/limits';
import { ask, makePoor, type Poor, topUp, untilWaiting, world } from './poor';

// A cap's refusal says which cap it is, and has the headers that each 429 has.

beforeEach(awayFromDayEnd);

async function capped(fields: Partial<constraints.ConstraintFields>) {
  const poor = await makePoor();
  const { db } = world.api;
  const { id: agent_id } = await organizations.createAgent(db, poor.org_id, 'Agent');
  const cap = { constraint_type: 'cost', provider: 'openai', model_pattern: '*', ...fields };
  const { id } = await constraints.create(
    db,
    { org_id: poor.org_id, agent_id },
    {
      ...(cap as constraints.ConstraintFields),
      max_value: fields.max_value ?? 0.001,
      interval: 'day',
      enforcement_mode: 'reject',
    },
  );
  return { poor, agent_id, cap_id: id };
}

const allHeaders = (limit: string) => ({
  'retry-after': expect.stringMatching(/^\d+$/),
  'x-ratelimit-limit': limit,
  'x-ratelimit-remaining': '0',
  'x-ratelimit-reset': String(nextDay() / 1_000),
  'x-should-retry': 'false',
});

const nextDay = () => new Date().setUTCHours(24, 0, 0, 0);

const machine = (path: string, body: object) =>
  world.api.call('post', `/v1/gateway/wallets/${path}`, { key: world.control_plane_token, body });

function reserveOf({ org_id, key_id }: Poor, agent_id: string) {
  return {
    org_id,
    key_id,
    agent_id,
    provider: 'openai',
    model: 'gpt-4o-mini',
    estimated_prompt_tokens: 4_000,
    max_completion_tokens: 0,
    request_body_hash: `sha256:${'c'.repeat(64)}`,
    request_id: randomUUID(),
  };
}

test('through the gateway: 429 names interval, bound and use of the cap, with all four headers', async () => {
  const { poor, agent_id, cap_id } = await capped({ constraint_type: 'responses', max_value: 1 });
  await topUp(poor);
  const headers = { 'x-svc-agent-id': agent_id };
  expect((await ask(poor, 'one', headers)).status).toBe(200);
  const refused = await ask(poor, 'two', headers);
  expect(refused.status).toBe(429);
  expect(refused.headers).toMatchObject(allHeaders('1'));
  const { error } = JSON.parse(refused.text);
  expect(error).toMatchObject({
    code: 'usage_constraint_exceeded',
    resets_at: new Date(nextDay()).toISOString(),
    usage_constraint: { id: cap_id, interval: 'day', max_value: 1, current_value: 1, needed: 1 },
  });
  expect(error.message).toContain(
    `may use 1 answer a calendar day (usage constraint ${cap_id}): 1 are used or held, and this request needs 1.`,
  );
});

test('a waiting call whose cap fills is told the same', async () => {
  const { poor, agent_id, cap_id } = await capped({ constraint_type: 'responses', max_value: 1 });
  const waits = ask(poor, 'one', { 'x-svc-agent-id': agent_id });
  await untilWaiting(poor);
  await constraints.increment(world.api.db, {
    org_id: poor.org_id,
    agent_id,
    provider: 'openai',
    model: 'gpt-4o-mini',
    cost_nanos: 0n,
    responses: 1,
    request_id: randomUUID(),
  });
  const refused = await waits;
  expect(refused.status).toBe(429);
  expect(refused.headers).toMatchObject(allHeaders('1'));
  expect(JSON.parse(refused.text).error.message).toContain(cap_id);
});

test('reserve, batch and redeem of the API: money to the nano, of the cap that ends last', async () => {
  const { poor, agent_id, cap_id } = await capped({ max_value: 0.000_601 });
  const agent = { org_id: poor.org_id, agent_id };
  const sooner = { constraint_type: 'cost', provider: 'openai', model_pattern: '*' } as const;
  await constraints.create(world.api.db, agent, {
    ...sooner,
    max_value: 0.000_6,
    interval: 'hour',
    enforcement_mode: 'reject',
  });
  const body = reserveOf(poor, agent_id);
  const short = await machine('reserve', body);
  expect(short.status).toBe(402);
  await topUp(poor);
  const held = await machine('reserve', { ...body, request_body_hash: `sha256:${'d'.repeat(64)}` });
  expect(held.status).toBe(200);
  const again = { ...body, request_id: randomUUID() };
  const words = `may use 0.000601 USD a calendar day (usage constraint ${cap_id}): 0.0006 are used or held, and this request needs 0.0006.`;
  const refused = await machine('reserve', again);
  expect(refused.status).toBe(429);
  expect(refused.headers).toMatchObject(allHeaders('0.000601'));
  expect(refused.body.error.message).toContain(words);
  const batch = await machine('batch', { items: [{ id: '1', op: 'reserve', body: again }] });
  const line = JSON.parse(batch.text);
  expect(line).toMatchObject({ status: 429, body: { error: { limit: 0.000_601 } } });
  expect(line.body.error.message).toContain(words);
  const { org_id, key_id, request_body_hash } = body;
  const redeem = {
    ...{ org_id, key_id, agent_id, request_body_hash },
    ticket_id: short.body.cost_ticket.id,
    request_id: randomUUID(),
  };
  const redeemed = await machine('redeem-ticket', redeem);
  expect(redeemed.status).toBe(429);
  expect(redeemed.headers).toMatchObject(allHeaders('0.000601'));
  expect(redeemed.body.error.message).toContain(words);
  const { request_id } = body;
  await machine('settle', { org_id, request_id, outcome: 'canceled' });
});
