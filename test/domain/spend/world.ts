import type * as calls from '../../../domain/ledger/calls';
import type { Dimension } from '../../../domain/spend/figures';
import type { Filter } from '../../../domain/spend/filters';
import type { Interval } from '../../../domain/spend/periods';
import { spend } from '../../../domain/spend/spend';
import { type Db, many, maybe } from '../../../domain/sql';
import { type openLedger, reserveBody, settleBody, TOKEN } from '../../support/ledger';

type Ledger = Awaited<ReturnType<typeof openLedger>>;

/** A call of so many tokens that was settled at a time. */
export async function call(
  { db, lanes }: Pick<Ledger, 'db' | 'lanes'>,
  org_id: string,
  tokens: number,
  at: Date | undefined,
  more: Partial<calls.Reserve> = {},
): Promise<string> {
  const { reservation_id } = await lanes.reserve(reserveBody(org_id, tokens, more));
  await lanes.settle(settleBody(org_id, reservation_id, tokens));
  if (at !== undefined) await settleAt(db, reservation_id as string, at);
  return reservation_id as string;
}

/** Moves a settlement to another time: the clock, moved for one row. */
async function settleAt(db: Db, reservation_id: string, at: Date): Promise<void> {
  await many(
    db,
    `with moved as (update reservations set closed_at = :at where id = :reservation_id)
     update wallet_transactions set created_at = :at where reservation_id = :reservation_id and type = 'settlement'`,
    { reservation_id, at },
  );
}

/** What an organization spent, as whoever bills sees it. */
export function spent(
  db: Db,
  org_id: string,
  asked: {
    from?: string;
    to?: string;
    interval?: Interval;
    group_by?: readonly Dimension[];
    filter?: Filter;
  } = {},
) {
  const { filter = {}, interval = 'day', group_by = [], ...period } = asked;
  const viewer = { org_id, user_id: null, sees_all: true };
  return spend(db, viewer, filter, { interval, group_by, ...period });
}

/** Nanos by what `local` and groups say. */
export async function nanosBy(...given: Parameters<typeof spent>): Promise<Record<string, bigint>> {
  const { buckets } = await spent(...given);
  return Object.fromEntries(
    buckets.map(({ local, group, cost_nanos }) => [
      [local, ...Object.values(group)].join(' '),
      cost_nanos,
    ]),
  );
}

/** The sum of the costs of an organization's settlements. */
export async function ledgerNanos(db: Db, org_id: string): Promise<bigint> {
  const row = await maybe<{ nanos: string }>(
    db,
    `select coalesce(sum(actual_cost_nanos), 0)::text as nanos from wallet_transactions
     where org_id = :org_id and type = 'settlement'`,
    { org_id },
  );
  return BigInt(row?.nanos ?? 0);
}

export const nanosOf = (tokens: number) => BigInt(tokens) * TOKEN;

/** Makes each write to a table fail, until it is called off: a fold that is killed there. */
export async function breakWritesTo(db: Db, table: string): Promise<() => Promise<void>> {
  await many(
    db,
    `create function killed() returns trigger language plpgsql as $$ begin raise 'killed at ${table}'; end $$`,
  );
  await many(
    db,
    `create trigger killed before insert or update on ${table} for each row execute function killed()`,
  );
  return async () => {
    await many(db, 'drop function killed() cascade');
  };
}
