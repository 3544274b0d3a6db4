import { randomUUID } from 'node:crypto';
import { type Batches, openBatches } from '../../api/ledger/batches';
import { audit } from '../../domain/ledger/audit';
import type * as calls from '../../domain/ledger/calls';
import { type Db, many, one } from '../../domain/sql';
import { createLog } from '../../runtime/log';
import { openTestDatabase } from './database';

export const chat = { provider: 'openai', model: 'gpt-4o-mini' };
export const BODY_HASH = `sha256:${'a'.repeat(64)}`;

/** Nanos of one token at one USD per million. */
export const TOKEN = 1_000n;

export interface TestOrg {
  org_id: string;
  org_wallet: string;
  user_id: string;
  user_wallet: string;
  team_id: string;
  team_wallet: string;
}

/** Two APIs' batches over one database with the test price; closing proves the ledger. */
export async function openLedger() {
  const { db, close: dropDatabase } = await openTestDatabase(20);
  const log = createLog('test', 'fatal');
  const [lanes, other] = [openBatches(db, log), openBatches(db, log)];
  await makePrice(db);
  const close = async () => {
    await other.close();
    await closeClean(db, lanes, dropDatabase);
  };
  return { db, lanes, other, close };
}

/** An organization whose own wallet covers so many tokens at the test price. */
export async function makeFundedOrg(
  db: Db,
  tokens: number,
  columns: Record<string, unknown> = {},
): Promise<TestOrg> {
  const org = await makeOrg(db, columns);
  await credit(db, org.org_id, org.org_wallet, BigInt(tokens) * TOKEN);
  return org;
}

/** An organization with a user and a team, each with an empty wallet. */
export async function makeOrg(db: Db, columns: Record<string, unknown> = {}): Promise<TestOrg> {
  const tag = randomUUID().slice(0, 8);
  const [org] = await db('organizations')
    .insert({ name: `Org ${tag}`, ...columns })
    .returning('id');
  const [user] = await db('users')
    .insert({ name: `User ${tag}` })
    .returning('id');
  await db('memberships').insert({ org_id: org.id, user_id: user.id, role: 'member' });
  const [team] = await db('teams')
    .insert({ org_id: org.id, name: `Team ${tag}` })
    .returning('id');
  await db('team_members').insert({ team_id: team.id, user_id: user.id });
  const wallet = (owner_type: string, owner_id: string | null) =>
    one<{ id: string }>(db, 'select id from ensure_wallet(:org_id, :owner_type, :owner_id)', {
      org_id: org.id,
      owner_type,
      owner_id,
    });
  return {
    org_id: org.id,
    org_wallet: (await wallet('organization', null)).id,
    user_id: user.id,
    user_wallet: (await wallet('user', user.id)).id,
    team_id: team.id,
    team_wallet: (await wallet('team', team.id)).id,
  };
}

/** A price of 1 USD per million input tokens and 2 per million output tokens by default. */
export async function makePrice(db: Db, columns: Record<string, unknown> = {}): Promise<string> {
  const now = new Date(Date.now() - 60_000);
  const row = {
    id: `price_${randomUUID()}`,
    ...chat,
    input_per_1m: 1,
    output_per_1m: 2,
    effective_from: now,
    created_at: now,
    updated_at: now,
  };
  const [made] = await db('model_prices')
    .insert({ ...row, ...columns })
    .returning('version_id');
  return made.version_id;
}

export async function credit(
  db: Db,
  org_id: string,
  wallet_id: string,
  amount_nanos: bigint,
): Promise<void> {
  await many(db, `select credit(:org_id, :wallet_id, :amount_nanos, 'test')`, {
    org_id,
    wallet_id,
    amount_nanos,
  });
}

/**
 * A reserve of so many prompt tokens and no completion, which at the test price holds TOKEN each.
 */
export function reserveBody(
  org_id: string,
  tokens: number,
  more: Partial<calls.Reserve> = {},
): calls.Reserve {
  return {
    org_id,
    ...chat,
    estimated_prompt_tokens: tokens,
    max_completion_tokens: 0,
    request_body_hash: BODY_HASH,
    request_id: randomUUID(),
    ...more,
  };
}

const noUsage: calls.Usage = {
  prompt_tokens: 0,
  completion_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  cache_write_1h_tokens: 0,
  reasoning_tokens: 0,
  audio_input_tokens: 0,
  audio_output_tokens: 0,
  characters: 0,
  seconds: 0,
  tool_calls: 0,
};

export function settleBody(
  org_id: string,
  reservation_id: string | null,
  tokens: number,
  more: Partial<calls.Settle> = {},
) {
  const usage = { ...noUsage, prompt_tokens: tokens };
  return {
    org_id,
    reservation_id: reservation_id ?? undefined,
    outcome: 'completed' as const,
    usage,
    ...more,
  };
}

export function usage(counts: Partial<calls.Usage>): calls.Usage {
  return { ...noUsage, ...counts };
}

export async function balance(
  db: Db,
  wallet_id: string,
): Promise<{ balance_nanos: bigint; reserved_nanos: bigint }> {
  return one(db, 'select balance_nanos, reserved_nanos from wallets where id = :wallet_id', {
    wallet_id,
  });
}

/** Moves a hold's deadline into the past: the clock, moved for one row. */
export async function makeOverdue(db: Db, reservation_id: string | null): Promise<void> {
  await many(
    db,
    `update reservations set expires_at = clock_timestamp() - interval '1 second' where id = :reservation_id`,
    {
      reservation_id,
    },
  );
}

export async function eventsOf(
  db: Db,
  org_id: string,
  type: string,
): Promise<Record<string, unknown>[]> {
  const rows = await many<{ payload: Record<string, unknown> }>(
    db,
    'select payload from events where org_id = :org_id and type = :type order by id',
    { org_id, type },
  );
  return rows.map((row) => row.payload);
}

/** Runs calls with at most so many in flight. */
export async function inFlight<T>(limit: number, calls: (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < calls.length; index = next++)
      results[index] = await (calls[index] as () => Promise<T>)();
  };
  await Promise.all(Array.from({ length: limit }, worker));
  return results;
}

/** Closes batches and database after the proof that the ledger is whole. */
export async function closeClean(
  db: Db,
  batches: Batches,
  close: () => Promise<void>,
): Promise<void> {
  await batches.close();
  const { broken } = await audit(db);
  await close();
  expect(broken).toEqual([]);
}

/** An own key of an organization, as its row; nothing here opens it. */
export async function makeOwnKey(
  db: Db,
  org_id: string,
  columns: Record<string, unknown> = {},
): Promise<string> {
  const sealed = { credentials: '{"key": "sealed"}', hint: '', fingerprint: '' };
  const [made] = await db('provider_keys')
    .insert({ org_id, provider: chat.provider, ...sealed, created_by: 'test', ...columns })
    .returning('id');
  return made.id;
}
