import { makeKeyId } from '../support/keys';
import { chat, usage } from '../support/ledger';
import {
  batch,
  db,
  fill,
  key_id,
  ledger,
  org,
  redeem,
  refused,
  reserve,
  row,
  send,
  ticketOf,
  UNIT,
  verdict,
} from './previous-ledger';
import type { Row } from './previous-version';

// An API of the previous version runs on this version's database while instances are replaced. Its
// calls get the answers here that they got from that version's own database.

test('wallets are made, filled and moved between', async () => {
  const { org_id, org_wallet, user_wallet, user_id } = org;
  const wallet = { org_id, owner_type: 'user', owner_id: user_id };
  expect(await row('ensure_wallet', wallet)).toEqual({ id: user_wallet });
  expect(await fill(org_wallet, 500n)).toMatchObject({ balance_after_nanos: 500n });
  const move = { org_id, from: org_wallet, to: user_wallet, amount_nanos: 200n, note: null };
  const entries = await send('transfer', move);
  expect(entries.map(({ amount_nanos }) => amount_nanos)).toEqual([-200n, 200n]);
  expect(await send('transfer', { ...move, amount_nanos: 301n })).toEqual([]);
  await db('exchange_rates').insert({ currency: 'EUR', rate: 0.5, updated_at: new Date() });
  const rate = { amount_nanos: '100', from: 'USD', to: 'EUR' };
  expect(await row('rate_of', rate)).toEqual({ nanos: '50' });
});

test('a reserve holds once, a settle charges once, and each refusal is a row', async () => {
  await fill(org.org_wallet, 100_000n);
  const long = reserve(95, { max_completion_tokens: null });
  const unknown = reserve(1, { team_id: 'team_nobody' });
  const unpriced = reserve(1, { model: 'nobody-knows' });
  const rows = await batch({ reserves: [long, reserve(101), unknown, unpriced] });
  expect(rows.map(({ op, n, code, param }) => [op, n, code, param])).toEqual([
    ['reserve', 1, 'insufficient_balance', null],
    ['reserve', 2, 'insufficient_balance', null],
    ['reserve', 3, 'not_of_organization', 'team_id'],
    ['reserve', 4, 'model_not_priced', 'model'],
  ]);

  const paid = reserve(10, { max_completion_tokens: 5 });
  const [held] = await batch({ reserves: [paid] });
  const hold = {
    op: 'reserve',
    code: null,
    status: null,
    wallet_id: org.org_wallet,
    wallet_owner_type: 'organization',
    currency: 'USD',
    estimated_cost_nanos: 20_000n,
    reserved_amount_nanos: 20_000n,
    balance_after_nanos: 80_000n,
    max_completion_tokens: 5n,
    warnings: null,
    resets_at: null,
    cost_ticket: null,
  };
  expect(held).toMatchObject(hold);
  const { reservation_id } = held as Row;
  expect(await batch({ reserves: [paid] })).toEqual([held]);
  const [reused] = await batch({ reserves: [{ ...paid, estimated_prompt_tokens: 11 }] });
  expect(reused).toMatchObject({ code: 'idempotency_key_reused', reservation_id: null });

  const asked = { org_id: org.org_id, reservation_ids: [reservation_id, 'res_nobody'] };
  expect((await send('extend', asked)).map(({ status }) => status)).toEqual([
    'extended',
    'unknown',
  ]);
  expect((await row('sweep_holds', { org_id: org.org_id })).next_ms).toBeGreaterThan(800_000);
  expect(await send('send_to_workflow', { limit: 5 })).toHaveLength(1);

  const settle = { reservation_id, outcome: 'completed', usage: usage({ prompt_tokens: 30 }) };
  const tombstone = { request_id: 'r-canceled', outcome: 'canceled', usage: usage({}) };
  const lost = { reservation_id: 'res_nobody', outcome: 'completed', usage: usage({}) };
  const [settled, canceled, missing] = byItem(
    await batch({ settlements: [settle, tombstone, lost] }),
  );
  expect(settled).toMatchObject({
    op: 'settle',
    status: 'settled',
    actual_cost_nanos: 30_000n,
    released_amount_nanos: 0n,
    balance_after_nanos: 70_000n,
  });
  expect(canceled).toMatchObject({ code: null, status: 'released', actual_cost_nanos: 0n });
  expect(missing).toMatchObject({ code: 'not_found' });
  expect(await batch({ settlements: [settle] })).toEqual([settled]);
  const [dead] = await batch({ reserves: [reserve(1, { request_id: 'r-canceled' })] });
  expect(dead).toMatchObject({ code: 'request_canceled' });
});

test('a batch pays from user, team and organization in this order, and knows what it has spent', async () => {
  await fill(org.user_wallet, 10_000n);
  await fill(org.team_wallet, 10_000n);
  await fill(org.org_wallet, 10_000n);
  const rows = await batch({ reserves: [10, 10, 9, 1, 1].map((tokens) => reserve(tokens)) });
  expect(rows.map((answer) => answer.wallet_owner_type)).toEqual([
    'user',
    'team',
    'organization',
    'organization',
    null,
  ]);
  expect(rows[4]).toMatchObject({
    code: 'insufficient_balance',
    cost_ticket: { balance_nanos: '0' },
  });
});

test('caps on agents and budgets of keys refuse', async () => {
  const { org_id } = org;
  await fill(org.org_wallet, UNIT);
  const [agent] = await db('agents').insert({ org_id, name: 'Agent' }).returning('id');
  const cap = { constraint_type: 'responses', model_pattern: '*', interval: 'month' };
  const [made] = await db('usage_constraints')
    .insert({
      ...cap,
      org_id,
      agent_id: agent.id,
      provider: 'openai',
      max_value: 3,
      enforcement_mode: 'reject',
      counted_from: new Date(),
    })
    .returning('id');
  await send('lock_organization', { org_id });
  await send('recount_constraint', { id: made.id });
  const use = { org_id, agent_id: agent.id, cost_nanos: 5n, responses: 1, request_id: 'beside' };
  expect(await row('increment_usage', { ...use, ...chat })).toEqual({ increment_usage: true });
  expect(await row('increment_usage', { ...use, ...chat })).toEqual({ increment_usage: false });
  const agent_id = agent.id as string;
  const rows = await batch({ reserves: [1, 1, 1].map((tokens) => reserve(tokens, { agent_id })) });
  expect(rows.map(({ code }) => code)).toEqual([null, null, 'usage_constraint_exceeded']);
  expect(rows[2]?.resets_at).toBeInstanceOf(Date);
  const standing = await row('constraints_at', { agent_id, ...chat, estimated_cost_nanos: 0n });
  expect(standing).toMatchObject({ id: made.id, current_value: 3, remaining: 0, exceeded: true });

  const poor = await makeKeyId(db, org_id, { max_budget_nanos: 1_500n });
  const two = await batch({ reserves: [1, 1].map((tokens) => reserve(tokens, { key_id: poor })) });
  expect(two.map(({ code }) => code)).toEqual([null, 'key_budget_exceeded']);
  await db('tokens').where({ id: poor }).update({ revoked_at: new Date() });
  const [gone] = await batch({ reserves: [reserve(1, { key_id: poor })] });
  expect(gone).toMatchObject({ code: 'invalid_credential' });
});

test('a ticket keeps its trace, waits, and is redeemed by the call once money is there', async () => {
  const { org_id } = org;
  const item = reserve(10);
  const traces = JSON.stringify({ [item.request_id as string]: { traceparent: '00-a-b-01' } });
  const empty = { org_id, settlements: '[]', redeems: '[]' };
  const [short] = await send('lane_3_traced', {
    ...empty,
    traces,
    reserves: JSON.stringify([item]),
  });
  const id = ticketOf(short);
  expect((await db('cost_tickets').where({ id }).first()).trace).toEqual({
    traceparent: '00-a-b-01',
  });
  expect((await row('ticket_answer', { id })).ticket).toMatchObject({
    id,
    status: 'open',
    org_id,
    shortfall_nanos: '10000',
    decided_at: null,
  });

  const call = redeem({ id, item }, 30_000);
  const [waits] = await batch({ redeems: [call] });
  expect(waits).toMatchObject({ op: 'redeem', n: 1, code: 'insufficient_balance' });
  const waiting = { org_id, request_ids: [item.request_id] };
  expect(await send('redeem_waiting', waiting)).toEqual([]);
  await fill(org.org_wallet, 10_000n);
  const served = await row('redeem_waiting', waiting);
  expect(served).toMatchObject({
    request_id: item.request_id,
    op: 'redeem',
    code: null,
    wallet_id: org.org_wallet,
    balance_after_nanos: 0n,
    max_completion_tokens: 0n,
  });
  expect((await row('ticket_answer', { id })).ticket).toMatchObject({ status: 'redeemed' });
  const [again] = await batch({ redeems: [call] });
  expect(again).toMatchObject({ code: null, reservation_id: served.reservation_id });
  const [other] = await batch({ redeems: [{ ...call, request_id: 'another' }] });
  expect(other).toMatchObject({ code: 'ticket_redeemed' });
  const [owner] = await batch({ redeems: [{ ...call, key_id: 'key_other' }] });
  expect(owner).toMatchObject({ code: 'ticket_owner_differs', cost_ticket: null });
  await send('waiter_grace', { org_id, request_id: item.request_id });
  expect((await db('ticket_waiters').where({ org_id }).first()).until.getTime()).toBeLessThan(
    Date.now(),
  );
});

test('tickets are approved, denied and expire', async () => {
  const { org_id, user_wallet } = org;
  const ticket = await refused();
  const approve = { org_id, ticket_id: ticket.id };
  const tooLittle = verdict({ amount_nanos: '9999', wallet_id: user_wallet });
  expect(await row('approve_ticket', { ...approve, verdict: tooLittle })).toEqual({
    code: 'amount_below_shortfall',
  });
  const foreign = verdict({ wallet_id: 'wal_nobody' });
  expect(await row('approve_ticket', { ...approve, verdict: foreign })).toEqual({
    code: 'wallet_not_of_ticket',
  });
  await db('tokens').where({ id: key_id }).update({ max_budget_nanos: 1n });
  expect(await row('approve_ticket', { ...approve, verdict: verdict() })).toEqual({
    code: 'key_budget_exceeded',
  });
  await db('tokens').where({ id: key_id }).update({ max_budget_nanos: null });
  const yes = verdict({ wallet_id: user_wallet, note: 'go on' });
  expect(await row('approve_ticket', { ...approve, verdict: yes })).toEqual({ code: null });
  expect(await row('approve_ticket', { ...approve, verdict: yes })).toEqual({ code: 'repeated' });
  const credited = await db('cost_tickets').where({ id: ticket.id }).first();
  expect(credited).toMatchObject({ status: 'approved', credited_nanos: 10_000n, note: 'go on' });
  const [claimed] = await batch({ redeems: [redeem(ticket)] });
  expect(claimed).toMatchObject({ code: null, reservation_id: credited.reservation_id });

  const denied = await refused();
  const no = { org_id, ticket_id: denied.id, verdict: verdict({ note: 'too dear' }) };
  expect(await row('deny_ticket', no)).toEqual({ code: null });
  const [answer] = await batch({ redeems: [redeem(denied)] });
  expect(answer).toMatchObject({ code: 'ticket_denied', cost_ticket: { note: 'too dear' } });

  const late = await refused();
  expect((await row('expire_ticket', { ticket_id: late.id })).left_ms).toBeGreaterThan(1_000);
  await db('cost_tickets').where({ id: late.id }).update({ expires_at: new Date() });
  expect(await row('expire_ticket', { ticket_id: late.id })).toEqual({ left_ms: 0 });
  const [over] = await batch({ redeems: [redeem(late)] });
  expect(over).toMatchObject({ code: 'ticket_expired' });
});

test('events are written, and their daily partitions come and go', async () => {
  const event = { id: `evt_${'0'.repeat(12)}1`, org_id: org.org_id, type: 'test', payload: {} };
  expect(await send('id_time', { given: JSON.stringify([event]) })).toHaveLength(1);
  const day = { day: '2031-01-01' };
  expect(await row('add_event_partition', day)).toEqual({ added: true });
  expect(await row('add_event_partition', day)).toEqual({ added: false });
  await send('drop_event_partition', { name: 'events_20310101' });
});

test('the ledger is whole after all of these calls, and none of them was left out', async () => {
  expect(await send('audit_3')).toEqual([]);
  ledger.expectAllSent();
});

function byItem(rows: Row[]): Row[] {
  return rows.toSorted((a, b) => Number(a.n) - Number(b.n));
}
