import { type Db, deleteInSteps, one } from '../sql';
import type { NamedId, NamedIds, Redeem, Reserve, Settle, StoredId } from './calls';
import { unknownId } from './refusals';

/** The ids that a reserve names, and who asks. `n` is the reserve's number in its batch. */
interface Named extends NamedIds {
  n: number;
  user_id: string | null | undefined;
}

/** The ids that a settlement has made. */
interface Made {
  reservation_id: string | undefined;
  request_id: string | undefined;
  target_id: string | undefined;
  ids: readonly StoredId[];
}

/** What the items of a batch say of stored ids; most say nothing. */
export interface StoredIds {
  made: readonly Made[];
  named: readonly Named[];
}

/** What is known of the ids of one reserve. */
export interface Verdict {
  n: number;
  /** Keeps them all; null if none does. */
  provider: string | null;
  /** The own key in whose account it keeps them; null: in that of the platform. */
  provider_key_id: string | null;
  /** The target at which they were made; null if nobody knows. */
  target_id: string | null;
  unknown: NamedId | null;
}

/** A row of a batch. */
interface Row {
  /** What is known of the ids that its reserves name; null in all rows but one. */
  verdicts: Verdict[] | null;
}

/** The ids of a reserve for its batch; undefined if it names none. */
export function namedBy(reserve: Reserve): Omit<Named, 'n'> | undefined {
  const { stored_ids, user_id } = reserve;
  return stored_ids ? { ...stored_ids, user_id } : undefined;
}

/** The ids that a settle has made, for its batch; undefined if it made none. */
export function madeBy({
  stored_ids,
  stored_at: target_id,
  reservation_id,
  request_id,
}: Settle): Made | undefined {
  return stored_ids?.length
    ? { reservation_id, request_id, target_id, ids: stored_ids }
    : undefined;
}

/**
 * What a batch says of the ids that its reserves name. The lane has not seen the reserves that are
 * refused for them, and numbers its rows as if those were not there: `numberOf` gives the right
 * numbers.
 */
export function verdictsIn(rows: readonly Row[], reserves: number) {
  const told = rows.flatMap(({ verdicts: some }) => some ?? []);
  const verdicts = new Map(told.map((verdict) => [verdict.n, verdict]));
  const numbers = Array.from({ length: reserves }, (_, at) => at + 1);
  const kept = numbers.filter((n) => verdicts.get(n)?.provider !== null);
  return {
    refused: [...verdicts.values()].filter(({ provider }) => provider === null),
    numberOf: (n: number): number => kept[n - 1] as number,
    /** Who keeps the ids of a reserve, if it names some. */
    keeperOf: (n: number): Keeper => keeperIn(verdicts.get(n)),
  };
}

/** Who keeps what a reserve or redeem names: members of its answer. */
export interface Keeper {
  stored_provider?: string;
  stored_key_id?: string;
  stored_at?: string;
}

function keeperIn(verdict: Verdict | undefined): Keeper {
  const { provider, provider_key_id, target_id } = verdict ?? {};
  return {
    ...(provider ? { stored_provider: provider } : {}),
    ...(provider_key_id ? { stored_key_id: provider_key_id } : {}),
    ...(target_id ? { stored_at: target_id } : {}),
  };
}

/**
 * Who keeps the ids of a redeem, which waits for money beside the batches; empty if it names none.
 * Throws the refusal if one is unknown.
 */
export async function keeperOf(db: Db, { org_id, user_id, stored_ids }: Redeem): Promise<Keeper> {
  if (stored_ids == null) return {};
  const named: Named[] = [{ ...stored_ids, n: 1, user_id }];
  const { verdicts } = await one<{ verdicts: Verdict[] }>(
    db,
    `select bind_stored_ids(:org_id, '[]', :named) as verdicts`,
    { org_id, named: JSON.stringify(named) },
  );
  const [verdict] = verdicts as [Verdict];
  if (verdict.provider === null) throw unknownId(verdict.unknown ?? undefined);
  return keeperIn(verdict);
}

/** Forgets ids 30 days after their last use; how many. */
export function forget(db: Db): Promise<number> {
  return deleteInSteps(db, 'stored_ids', `used_at < clock_timestamp() - interval '30 days'`);
}
