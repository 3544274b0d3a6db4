import { AppError } from '../errors';
import { type Db, many, maybe, prepared } from '../sql';
import type { TraceMembers } from '../trace';
import { budgetExceeded, type RefusingBudget } from './budget-refusals';
import type {
  BudgetWarning,
  Extension,
  FrozenKey,
  NamedId,
  PricedModel,
  Redeem,
  Reservation,
  Reserve,
  Settle,
  Settlement,
  Warning,
} from './calls';
import {
  capExceeded,
  isBeyondTickets,
  openTicketsExceeded,
  type RefusingCap,
  refusals,
  unknownId,
  words,
} from './refusals';
import { type Keeper, type StoredIds, type Verdict, verdictsIn } from './stored-ids';

/** The SQL type `item_answer`: the answer to one item. `code` is null if it went well. */
export interface ItemAnswer extends Keeper {
  op: 'reserve' | 'settle' | 'redeem';
  n: number;
  code: string | null;
  param: string | null;
  reservation_id: string | null;
  status: 'settled' | 'late' | 'released' | null;
  wallet_id: string | null;
  wallet_owner_type: 'user' | 'team' | 'organization' | null;
  currency: string | null;
  estimated_cost_nanos: bigint | null;
  reserved_amount_nanos: bigint | null;
  actual_cost_nanos: bigint | null;
  released_amount_nanos: bigint | null;
  balance_after_nanos: bigint | null;
  transaction_id: string | null;
  expires_at: Date | null;
  cost_ticket: Record<string, unknown> | null;
  /** The completion that the hold pays for. */
  max_completion_tokens: bigint | null;
  /** Of a refusal by a cap or a budget: the one that refuses. */
  warnings: (Warning | BudgetWarning)[] | RefusingCap[] | RefusingBudget[] | null;
  /** When the window of the constraint that refused ends. */
  resets_at: Date | null;
  /** The own keys that may serve it. */
  own_keys: FrozenKey[] | null;
  /** Of a reserve that names stored ids: the one that is unknown. */
  stored_id?: NamedId | null;
}

/** The columns of `lane_row` as one flat row. */
export const answerColumns =
  '(r.answer).*, r.max_completion_tokens, r.warnings, r.resets_at, r.own_keys';

/** The items of a batch, and what is said of their calls. */
export interface Bodies {
  settlements?: readonly object[];
  redeems?: readonly object[];
  reserves?: readonly object[];
  /**
   * What is said of the calls, for the events that they cause: of reserves and redeems by their
   * request_id, of settles by the name that they give their hold.
   */
  traces?: Record<string, TraceMembers> | undefined;
  stored?: StoredIds | undefined;
}

/**
 * Commits one batch of one organization: settles, then redeems, then reserves. Answers are rows in
 * no particular order: `op` and `n` (1-based) name the item. Throws only if nothing at all was
 * written.
 */
export async function reserveBatch(db: Db, org_id: string, bodies: Bodies): Promise<ItemAnswer[]> {
  const { stored, reserves = [] } = bodies;
  const bindings = bindingsOf(org_id, bodies);
  if (stored === undefined) {
    return prepared<ItemAnswer>(
      db,
      'lane_4',
      'select * from lane_4(:org_id, :settlements, :redeems, :reserves, :traces)',
      bindings,
    );
  }
  const rows = await many<RowWithVerdicts>(
    db,
    // One row carries what the batch says of ids.
    `select r.*, case row_number() over () when 1 then b end as verdicts from bind_stored_ids(:org_id, :made, :named) as b
     left join lateral lane_4(:org_id, :settlements, :redeems, reserves_of_known_ids(:reserves, b), :traces) as r on true`,
    { ...bindings, made: JSON.stringify(stored.made), named: JSON.stringify(stored.named) },
  );
  return withVerdicts(rows, reserves.length);
}

/** The arguments of `lane_4`. */
export function bindingsOf(
  org_id: string,
  { settlements = [], redeems = [], reserves = [], traces }: Bodies,
) {
  return {
    org_id,
    settlements: JSON.stringify(settlements),
    redeems: JSON.stringify(redeems),
    reserves: JSON.stringify(reserves),
    traces: traces === undefined ? null : JSON.stringify(traces),
  };
}

type RowWithVerdicts = Omit<ItemAnswer, 'op'> & {
  op: ItemAnswer['op'] | null;
  verdicts: Verdict[] | null;
};

/** The answers to a batch in which reserves name stored ids, or settlements made some. */
function withVerdicts(rows: readonly RowWithVerdicts[], reserves: number): ItemAnswer[] {
  const { refused, numberOf, keeperOf } = verdictsIn(rows, reserves);
  const answers = rows.flatMap(({ verdicts: _, op, ...row }): ItemAnswer[] => {
    if (op !== 'reserve') return op === null ? [] : [{ ...row, op }];
    const n = numberOf(row.n);
    return [{ ...row, op, n, ...keeperOf(n) }];
  });
  // Even if the lane answers nothing there is a row, whose columns are empty.
  const empty = Object.fromEntries(Object.keys(rows[0] ?? {}).map((column) => [column, null]));
  const refusals_of_ids = refused.map(({ n, unknown: stored_id }) => {
    const row = { ...empty, op: 'reserve', n, code: 'stored_id_unknown', stored_id };
    return row as unknown as ItemAnswer;
  });
  return [...answers, ...refusals_of_ids];
}

/**
 * The SQL type `reserve_item` of a reserve body. Here and below without what is said of the call: a
 * repeat is the same item in whichever trace, and under whichever label, it comes.
 */
export function reserveItem(reserve: Reserve): Record<string, unknown> {
  const { org_id: _, stored_ids: _ids, units, session_limits, ...more } = reserve;
  const { traceparent: _trace, identity_proof_method: _proof, trace_label: _label, ...rest } = more;
  return {
    ...rest,
    ...units,
    session_max_actions: session_limits?.max_actions,
    session_max_cost_usd: session_limits?.max_cost_usd,
  };
}

/** The SQL type `settle_item` of a settle body. */
export function settleItem({
  org_id: _,
  stored_ids: _ids,
  with_cost: _cost,
  traceparent: _trace,
  identity_proof_method: _proof,
  trace_label: _label,
  ...item
}: Settle): Record<string, unknown> {
  return item;
}

/** The SQL type `redeem_item` of a redeem body. */
export function redeemItem({
  org_id: _,
  team_id: _team,
  stored_ids: _ids,
  traceparent: _trace,
  identity_proof_method: _proof,
  trace_label: _label,
  ...item
}: Redeem): Record<string, unknown> {
  return item;
}

/** The wire answer of a reserve or redeem; throws the refusal that the row carries. */
export function reserveAnswer(row: ItemAnswer, asked?: PricedModel): Reservation {
  if (row.code !== null) throw refusal(row, asked);
  // The functions that answer without a code fill these columns.
  const held = row as ItemAnswer & Reservation;
  return {
    reservation_id: held.reservation_id,
    wallet_id: held.wallet_id,
    wallet_owner_type: held.wallet_owner_type,
    estimated_cost_nanos: held.estimated_cost_nanos,
    reserved_amount_nanos: held.reserved_amount_nanos,
    currency: held.currency,
    balance_after_nanos: held.balance_after_nanos,
    expires_at: held.expires_at,
    max_completion_tokens: held.max_completion_tokens,
    // Of a hold there is nothing that refuses.
    warnings: (row.warnings ?? []) as (Warning | BudgetWarning)[],
    ...(row.stored_provider === undefined ? {} : { stored_provider: row.stored_provider }),
    ...(row.stored_key_id === undefined ? {} : { stored_key_id: row.stored_key_id }),
    ...(row.stored_at === undefined ? {} : { stored_at: row.stored_at }),
    ...(row.own_keys == null ? {} : { own_keys: row.own_keys }),
  };
}

/** The wire answer of a settle; throws the refusal that the row carries. */
export function settleAnswer(row: ItemAnswer): Settlement {
  if (row.code !== null) throw refusal(row);
  const settled = row as ItemAnswer & Settlement;
  return {
    reservation_id: settled.reservation_id,
    status: settled.status,
    actual_cost_nanos: settled.actual_cost_nanos,
    released_amount_nanos: settled.released_amount_nanos,
    wallet_id: settled.wallet_id,
    balance_after_nanos: settled.balance_after_nanos,
    transaction_id: settled.transaction_id,
  };
}

/** Moves open holds of one organization to now + their life, at most 24 h after the reserve. */
export function extend(
  db: Db,
  org_id: string,
  reservation_ids: readonly string[],
): Promise<Extension[]> {
  return many<Extension>(db, 'select * from extend(:org_id, :reservation_ids)', {
    org_id,
    reservation_ids,
  });
}

/**
 * Expires overdue holds of one organization; returns milliseconds to its next deadline, or null if
 * no hold is open.
 */
export async function sweep(db: Db, org_id: string): Promise<number | null> {
  const row = await maybe<{ next_ms: number | null }>(
    db,
    'select sweep_holds(:org_id) as next_ms',
    { org_id },
  );
  return row?.next_ms ?? null;
}

/** The organization of a reservation, for a settle that names none. */
export async function orgOf(db: Db, reservation_id: string): Promise<string> {
  const row = await maybe<{ org_id: string }>(
    db,
    'select org_id from reservations where id = :reservation_id',
    {
      reservation_id,
    },
  );
  if (row === undefined) throw new AppError('not_found', 'No reservation was found under this id.');
  return row.org_id;
}

/**
 * Wakes the lifetimes workflow of up to `limit` organizations whose holds are overdue though it
 * should have seen them.
 */
export async function adoptOrphans(db: Db, limit: number): Promise<number> {
  const rows = await many(
    db,
    `select send_to_workflow(o.org_id, 'reservationLifetimes', 'lifetimes-' || o.org_id, 'wake', jsonb_build_object('org_id', o.org_id))
     from (select r.org_id from reservations r where r.status = 'open' and r.expires_at < clock_timestamp() - interval '15 seconds'
       and not exists (select 1 from outbox b where b.workflow_id = 'lifetimes-' || r.org_id and b.parked_at is null)
       group by r.org_id limit :limit) as o`,
    { limit },
  );
  return rows.length;
}

function refusal(row: ItemAnswer, asked?: PricedModel): AppError {
  const { code, cost_ticket, resets_at } = row;
  const [cap] = row.warnings ?? [];
  if (code === 'usage_constraint_exceeded' && cap) return capExceeded(cap as RefusingCap);
  if (code === 'key_budget_exceeded' && cap) return budgetExceeded(cap as RefusingBudget);
  if (code === 'stored_id_unknown') return unknownId(row.stored_id ?? undefined);
  // The caller's own credential was taken; it is the key of the request that is refused.
  const param = row.param ?? (code === 'invalid_credential' ? 'key_id' : undefined);
  if (isBeyondTickets(row)) return openTicketsExceeded(row);
  const known = refusals[code ?? ''];
  if (known === undefined) return new AppError('internal_error', `Unknown refusal ${code}.`);
  return new AppError(known.code, words(row, asked) ?? known.message, {
    ...(param ? { param } : {}),
    ...(cost_ticket ? { extra: { cost_ticket } } : {}),
    ...(resets_at ? windowEnd(resets_at) : {}),
  });
}

function windowEnd(resets_at: Date) {
  return { retry_after: (resets_at.getTime() - Date.now()) / 1_000, extra: { resets_at } };
}
