import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../domain/errors';
import type { GatewayEvent } from '../../domain/events';
import * as keyedBatches from '../../domain/ledger/keyed-batches';
import * as reservations from '../../domain/ledger/reservations';
import type * as storedIds from '../../domain/ledger/stored-ids';
import { invalidKey } from '../../domain/people/keys';
import * as tokens from '../../domain/people/living-tokens';
import { type Db, isTransient, isUnreachable, withRetry } from '../../domain/sql';
import type { TraceMembers } from '../../domain/trace';

type ItemAnswer = reservations.ItemAnswer;

/**
 * Pauses before a batch of unknown outcome is sent again; it is the same batch, and every item has
 * an id.
 */
const RESEND_MS = [50, 250, 1_000];

export type Op = ItemAnswer['op'];

/**
 * Items of each kind, in the order of the commit: who gives money back, who has waited for it, who
 * is new.
 */
export type Batch = Record<Op, Item[]>;

export interface ItemBody {
  /**
   * `reserve:<request_id>`, `redeem:<request_id>` or `settle:<id>`: a second item under it shares
   * the first one's answer.
   */
  id: string;
  /** The body as text: items share an answer only if it is equal. */
  text: string;
  body: Record<string, unknown>;
  /** What is said of its call, and the name that the ledger finds it by. */
  trace?: TraceMembers | undefined;
  name: string;
  /** The stored ids that a reserve names, and those that a settle has made. */
  named?: ReturnType<typeof storedIds.namedBy>;
  made?: ReturnType<typeof storedIds.madeBy>;
  /**
   * The hash of the key that it came with, if nobody has looked at that key: its batch does.
   */
  key?: string | undefined;
}

export interface Item extends ItemBody {
  answer: Promise<ItemAnswer>;
  resolve: (row: ItemAnswer) => void;
  reject: (error: unknown) => void;
}

/** Events of a gateway that are to be written with the next commit. */
export interface Told {
  events: readonly GatewayEvent[];
  key: string;
  resolve: () => void;
  reject: (error: AppError) => void;
}

/** In the order of the commit. */
export function itemsOf({ settle, redeem, reserve }: Batch): Item[] {
  return [...settle, ...redeem, ...reserve];
}

/** The same for each item alone; what cannot be done is its answer. */
export async function commitSingly(db: Db, org_id: string, batch: Batch): Promise<void> {
  for (const op of ['settle', 'redeem', 'reserve'] as const) {
    for (const item of batch[op]) {
      const alone = { settle: [], redeem: [], reserve: [], [op]: [item] };
      await commit(db, org_id, alone).catch(item.reject);
    }
  }
}

/** Commits a batch and answers its items. */
export async function commit(
  db: Db,
  org_id: string,
  batch: Batch,
  told: readonly Told[] = [],
): Promise<void> {
  const keys = [...new Set([...itemsOf(batch), ...told].flatMap(({ key }) => key ?? []))];
  const stored = storedOf(batch);
  if (keys.length > 0 && stored !== undefined) {
    leaveUntold(told);
    return commitConfirmed(db, org_id, batch, keys);
  }
  const bodies = {
    settlements: batch.settle.map(bodyOf),
    redeems: batch.redeem.map(bodyOf),
    reserves: batch.reserve.map(bodyOf),
    traces: tracesOf(itemsOf(batch)),
  };
  const rows = await resend(() =>
    withRetry(() =>
      keys.length > 0
        ? keyedBatches.reserveBatchOf(
            db,
            { keys, events: told.flatMap(({ events }) => events) },
            org_id,
            bodies,
          )
        : reservations.reserveBatch(db, org_id, { ...bodies, stored }),
    ),
  );
  if (rows === undefined) {
    leaveUntold(told);
    return commitConfirmed(db, org_id, batch, keys);
  }
  for (const { resolve } of told) resolve();
  const left = new Set(itemsOf(batch));
  for (const row of rows) {
    const item = batch[row.op][row.n - 1];
    item?.resolve(row);
    if (item !== undefined) left.delete(item);
  }
  // Empty unless a stored function forgot an item; then its caller must not wait for ever.
  for (const item of left) {
    item.reject(new AppError('internal_error', 'The ledger did not answer this item.'));
  }
}

/**
 * Looks at the keys by themselves, which notes their use, and commits the items of those that are
 * good.
 */
async function commitConfirmed(
  db: Db,
  org_id: string,
  batch: Batch,
  keys: readonly string[],
): Promise<void> {
  const living = await withRetry(() => tokens.findLiving(db, keys));
  const isGood = (item: Item): boolean => {
    if (item.key === undefined || living.get(item.key)?.scopes.includes('control_plane')) {
      item.key = undefined;
      return true;
    }
    item.reject(invalidKey());
    return false;
  };
  const good = {
    settle: batch.settle.filter(isGood),
    redeem: batch.redeem.filter(isGood),
    reserve: batch.reserve.filter(isGood),
  };
  if (itemsOf(good).length > 0) await commit(db, org_id, good);
}

/** Repeats a call if the connection broke, so that its outcome is unknown. */
async function resend<T>(call: () => Promise<T>): Promise<T> {
  for (const pause_ms of RESEND_MS) {
    try {
      return await call();
    } catch (error) {
      if (!isUnreachable(error) || isTransient(error)) throw error;
      await sleep(pause_ms);
    }
  }
  return call();
}

/** Nobody writes these events: their gateway sends them by themselves. */
export function leaveUntold(told: readonly Told[]): void {
  for (const { reject } of told) reject(untold());
}

/** The refusal of events that no transaction has taken. */
export function untold(): AppError {
  return new AppError('unavailable', 'No transaction took these events. Send them by themselves.');
}

/** Undefined if nothing is said of any of their calls. */
function tracesOf(items: readonly Item[]): Record<string, TraceMembers> | undefined {
  const told = items.filter(({ trace }) => trace !== undefined);
  if (told.length === 0) return undefined;
  return Object.fromEntries(told.map(({ name, trace }) => [name, trace as TraceMembers]));
}

/** Undefined if no item has stored ids. */
function storedOf({ settle, reserve }: Batch): storedIds.StoredIds | undefined {
  const made = settle.flatMap((item) => item.made ?? []);
  const named = reserve.flatMap((item, at) => (item.named ? { ...item.named, n: at + 1 } : []));
  return made.length + named.length === 0 ? undefined : { made, named };
}

function bodyOf({ body }: Item): Record<string, unknown> {
  return body;
}
