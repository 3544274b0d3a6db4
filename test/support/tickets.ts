import { randomUUID } from 'node:crypto';
import { audit } from '../../domain/ledger/audit';
import { type Db, many } from '../../domain/sql';
import { type Answer, type CallApi, makeTenant, serve, type Tenant } from './api';
import { openTestDatabase } from './database';
import { gatewayToken } from './keys';
import { makePrice, reserveBody } from './ledger';
import { until } from './until';
import { openWorker, type TestWorker } from './worker';

export interface TicketWorld extends TestWorker {
  db: Db;
  /** Two APIs over one database; `call` is the first. */
  call: CallApi;
  other: CallApi;
  machine: string;
  close: () => Promise<void>;
}

/** Two APIs and a worker over one database with the test price; closing proves the ledger. */
export async function openTicketWorld(): Promise<TicketWorld> {
  const { db, close: dropDatabase } = await openTestDatabase(20);
  const worker = await openWorker(db);
  const { temporal } = worker;
  const apis = [await serve({ db, temporal }), await serve({ db, temporal })] as const;
  await makePrice(db);
  const close = async () => {
    for (const api of apis) await api.close();
    await worker.close();
    const { broken } = await audit(db);
    await dropDatabase();
    expect(broken).toEqual([]);
  };
  const machine = await gatewayToken(db);
  return { ...worker, db, call: apis[0].call, other: apis[1].call, machine, close };
}

export interface Short extends Tenant {
  ticket_id: string;
  request_id: string;
  body: ReturnType<typeof reserveBody>;
}

/** A body hash of its own, as another prompt would have. */
export function bodyHash(): string {
  return `sha256:${randomUUID().replaceAll('-', '').repeat(2)}`;
}

/** A tenant, and a request of so many tokens that nothing covers. */
export async function makeShort(
  { db, call, machine }: TicketWorld,
  tokens: number,
  more: object = {},
  tenant?: Tenant,
): Promise<Short> {
  const owner = tenant ?? (await makeTenant(db));
  const body = { ...reserveBody(owner.org_id, tokens), request_body_hash: bodyHash(), ...more };
  const answer = await call('post', '/v1/gateway/wallets/reserve', { key: machine, body });
  expect(answer.status).toBe(402);
  const { request_id } = body;
  return { ...owner, body, request_id, ticket_id: answer.body.cost_ticket.id };
}

export function redeem(
  call: CallApi,
  key: string,
  {
    org_id,
    ticket_id,
    request_id,
    body,
  }: Pick<Short, 'org_id' | 'ticket_id' | 'request_id' | 'body'>,
  more: object = {},
): Promise<Answer> {
  const { request_body_hash, key_id, user_id } = body;
  return call('post', '/v1/gateway/wallets/redeem-ticket', {
    key,
    body: { org_id, ticket_id, request_id, request_body_hash, key_id, user_id, ...more },
  });
}

export function approve(call: CallApi, short: Short, body: object = {}, key = short.billing_key) {
  return call('post', `/v1/cost-tickets/${short.ticket_id}/approve`, { key, body });
}

export function deny(call: CallApi, short: Short, body: object = {}, key = short.billing_key) {
  return call('post', `/v1/cost-tickets/${short.ticket_id}/deny`, { key, body });
}

/** How long a verdict takes, which goes through Temporal as much else does, in milliseconds. */
export async function verdictMs(world: TicketWorld): Promise<number> {
  const short = await makeShort(world, 100);
  const asked_at = performance.now();
  await deny(world.call, short);
  return performance.now() - asked_at;
}

export async function show(call: CallApi, { ticket_id, billing_key }: Short) {
  return (await call('get', `/v1/cost-tickets/${ticket_id}`, { key: billing_key })).body;
}

/**
 * Waits until so many calls wait on a ticket. False if one of these was answered before: on a busy
 * machine a short wait may be over too early, and is tried with a longer one.
 */
export async function areWaiting(
  call: CallApi,
  short: Short,
  answers: readonly Promise<Answer>[],
): Promise<boolean> {
  let is_over = false;
  for (const answer of answers)
    void answer.then(() => {
      is_over = true;
    });
  await until(async () => is_over || (await show(call, short)).waiting_calls === answers.length);
  return !is_over;
}

/**
 * Runs something while a call between two waits keeps its place for a minute in place of two
 * seconds, which a busy machine needs for the next call alone.
 */
export async function withLongGrace(db: Db, run: () => Promise<void>): Promise<void> {
  const graceOf = (words: string) =>
    many(
      db,
      `create or replace function waiter_grace() returns interval language sql immutable as $$ select interval '${words}' $$`,
    );
  const [usual] = await many<{ words: string }>(db, 'select waiter_grace()::text as words');
  await graceOf('1 minute');
  try {
    await run();
  } finally {
    await graceOf(usual?.words as string);
  }
}

/** Adds so many tokens' worth to the organization's wallet, as its billing admin does. */
export function topUp(call: CallApi, { billing_key }: Tenant, tokens: number): Promise<Answer> {
  return call('post', '/v1/wallets/credit', {
    key: billing_key,
    body: { target_wallet_owner_type: 'organization', amount: tokens / 1e6 },
  });
}
