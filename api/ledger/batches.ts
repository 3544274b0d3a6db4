import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { AppError, isAppError } from '../../domain/errors';
import type * as calls from '../../domain/ledger/calls';
import * as reservations from '../../domain/ledger/reservations';
import * as storedIds from '../../domain/ledger/stored-ids';
import { invalidKey } from '../../domain/people/keys';
import * as tokens from '../../domain/people/living-tokens';
import {
  cannotWorkNow,
  type Db,
  isCanceled,
  isTransient,
  isUnreachable,
  withRetry,
} from '../../domain/sql';
import { membersOf, type TraceMembers } from '../../domain/trace';
import { createDeferred } from '../../runtime/deferred';
import type { Logger } from '../../runtime/log';

type ItemAnswer = reservations.ItemAnswer;

/** The most items of one commit. */
const ITEMS_MAX = 64;
/** The most items of one organization that may wait before callers get 503. */
const WAITING_MAX = 4_000;
/**
 * Pauses before a batch of unknown outcome is sent again; it is the same batch, and every item has
 * an id.
 */
const RESEND_MS = [50, 250, 1_000];

export type Batches = ReturnType<typeof openBatches>;

type Op = ItemAnswer['op'];

/**
 * Items of each kind, in the order of the commit: who gives money back, who has waited for it, who
 * is new.
 */
type Batch = Record<Op, Item[]>;

interface ItemBody {
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

interface Item extends ItemBody {
  answer: Promise<ItemAnswer>;
  resolve: (row: ItemAnswer) => void;
  reject: (error: unknown) => void;
}

/** The items that wait for one organization's lock. */
interface Queue {
  org_id: string;
  waiting: Batch;
  /** Every item without an answer, also those of the batch that is out. */
  byId: Map<string, Item>;
  running: Promise<void> | undefined;
}

/**
 * Coalesces the items that wait for one organization's lock into one call and one commit,
 * settlements first (docs/decisions.md, 1 and 2). An idle organization's batch leaves in the same
 * turn of the event loop; while it is out the next one gathers.
 */
export function openBatches(db: Db, log: Logger) {
  const queues = new Map<string, Queue>();

  async function add(op: Op, org_id: string, given: ItemBody): Promise<ItemAnswer> {
    const queue = queues.get(org_id) ?? addQueue(queues, org_id);
    const earlier = queue.byId.get(given.id);
    if (earlier?.text === given.text && earlier.key === given.key) return earlier.answer;
    if (earlier) {
      // The same id with another body or key waits its turn, so that the ledger sees two items.
      await earlier.answer.catch(() => undefined);
      return add(op, org_id, given);
    }
    if (queue.byId.size >= WAITING_MAX)
      throw new AppError('overloaded', 'Too many calls of this organization are waiting.');
    const item = enqueue(queue, op, given);
    queue.running ??= run(queue);
    return item.answer;
  }

  async function run(queue: Queue): Promise<void> {
    while (queue.byId.size > 0) {
      // Items that arrived in one turn of the event loop leave together: the first item of a call
      // does not go alone.
      await setImmediate();
      await send(db, queue, log);
    }
    queues.delete(queue.org_id);
  }

  return {
    /**
     * Refusals are rows (`code`), here and below; throws only if the ledger is away or the
     * organization's queue is full, or with `invalid_credential` if the key whose hash is given is
     * not good any more.
     */
    reserve: (body: calls.Reserve, key?: string) =>
      add('reserve', body.org_id, { ...reserveOf(body), key }),
    settle: (body: calls.Settle, key?: string) =>
      add('settle', body.org_id, { ...settleOf(body), key }),
    redeem: (body: calls.Redeem) => add('redeem', body.org_id, redeemOf(body)),
    /** Resolves when every item is committed. */
    async close(): Promise<void> {
      while (queues.size > 0) await Promise.all([...queues.values()].map(({ running }) => running));
    },
  };
}

function reserveOf(reserve: calls.Reserve): ItemBody {
  const body = reservations.reserveItem(reserve);
  const id = `reserve:${reserve.request_id}`;
  const named = storedIds.namedBy(reserve);
  const text = JSON.stringify(named === undefined ? body : [body, named]);
  return { id, text, body, trace: membersOf(reserve), name: reserve.request_id, named };
}

/** Only equal settles share an answer: the refusal of a wrong one is nobody else's. */
function settleOf(settle: calls.Settle): ItemBody {
  const body = reservations.settleItem(settle);
  const { reservation_id, request_id = '' } = settle;
  const id = reservation_id === undefined ? `request:${request_id}` : `hold:${reservation_id}`;
  const name = reservation_id ?? request_id;
  const made = storedIds.madeBy(settle);
  const text = JSON.stringify(made === undefined ? body : [body, made]);
  return { id: `settle:${id}`, text, body, trace: membersOf(settle), name, made };
}

function redeemOf(redeem: calls.Redeem): ItemBody {
  const body = reservations.redeemItem(redeem);
  const { request_id: name } = redeem;
  const text = JSON.stringify(body);
  return { id: `redeem:${name}`, text, body, trace: membersOf(redeem), name };
}

function addQueue(queues: Map<string, Queue>, org_id: string): Queue {
  const waiting = { settle: [], redeem: [], reserve: [] };
  const queue: Queue = { org_id, waiting, byId: new Map(), running: undefined };
  queues.set(org_id, queue);
  return queue;
}

function enqueue(queue: Queue, op: Op, given: ItemBody): Item {
  const { promise, resolve, reject } = createDeferred<ItemAnswer>();
  // An item leaves with its answer, not with its batch: a caller that waits for it, to send another
  // body, asks again at once.
  const leave = () => queue.byId.get(given.id) === item && queue.byId.delete(given.id);
  const item: Item = {
    ...given,
    answer: promise,
    resolve(row) {
      leave();
      resolve(row);
    },
    reject(error) {
      leave();
      reject(error);
    },
  };
  queue.waiting[op].push(item);
  queue.byId.set(given.id, item);
  return item;
}

/** Sends the next batch, and answers all its items. */
async function send(db: Db, queue: Queue, log: Logger): Promise<void> {
  const batch = nextBatch(queue.waiting);
  try {
    await commit(db, queue.org_id, batch);
  } catch (error) {
    const is_hopeless = cannotWorkNow(error) && !isCanceled(error);
    if (is_hopeless || (isAppError(error) && error.code === 'unavailable')) {
      for (const item of itemsOf(batch)) item.reject(error);
    } else {
      log.error({ err: error, org_id: queue.org_id }, 'a batch failed; its items go one by one');
      await commitSingly(db, queue.org_id, batch);
    }
  }
}

function nextBatch(waiting: Batch): Batch {
  let room = ITEMS_MAX;
  const take = (items: Item[]) => {
    const taken = items.splice(0, room);
    room -= taken.length;
    return taken;
  };
  return {
    settle: take(waiting.settle),
    redeem: take(waiting.redeem),
    reserve: take(waiting.reserve),
  };
}

function itemsOf({ settle, redeem, reserve }: Batch): Item[] {
  return [...settle, ...redeem, ...reserve];
}

async function commitSingly(db: Db, org_id: string, batch: Batch): Promise<void> {
  for (const op of ['settle', 'redeem', 'reserve'] as const) {
    for (const item of batch[op]) {
      const alone = { settle: [], redeem: [], reserve: [], [op]: [item] };
      await commit(db, org_id, alone).catch(item.reject);
    }
  }
}

async function commit(db: Db, org_id: string, batch: Batch): Promise<void> {
  const keys = [...new Set(itemsOf(batch).flatMap(({ key }) => key ?? []))];
  const stored = storedOf(batch);
  if (keys.length > 0 && stored !== undefined) return commitConfirmed(db, org_id, batch, keys);
  const bodies = {
    settlements: batch.settle.map(bodyOf),
    redeems: batch.redeem.map(bodyOf),
    reserves: batch.reserve.map(bodyOf),
    traces: tracesOf(itemsOf(batch)),
  };
  const rows = await resend(() =>
    withRetry(() =>
      keys.length > 0
        ? reservations.reserveBatchOf(db, keys, org_id, bodies)
        : reservations.reserveBatch(db, org_id, { ...bodies, stored }),
    ),
  );
  if (rows === undefined) return commitConfirmed(db, org_id, batch, keys);
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
