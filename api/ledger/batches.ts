import { setImmediate } from 'node:timers/promises';
import { AppError, isAppError } from '../../domain/errors';
import type { GatewayEvent } from '../../domain/events';
import type * as calls from '../../domain/ledger/calls';
import * as reservations from '../../domain/ledger/reservations';
import * as storedIds from '../../domain/ledger/stored-ids';
import { cannotWorkNow, type Db, isCanceled } from '../../domain/sql';
import { membersOf } from '../../domain/trace';
import { createDeferred } from '../../runtime/deferred';
import type { Logger } from '../../runtime/log';
import {
  type Batch,
  commit,
  commitSingly,
  type Item,
  type ItemBody,
  itemsOf,
  leaveUntold,
  type Op,
  type Told,
  untold,
} from './commits';
import { createPriceLines } from './price-lines';

type ItemAnswer = reservations.ItemAnswer;

/** The most items of one commit. */
const ITEMS_MAX = 64;
/** The most items of one organization that may wait before callers get 503. */
const WAITING_MAX = 4_000;
export type Batches = ReturnType<typeof openBatches>;

/** The items that wait for one organization's lock. */
interface Queue {
  org_id: string;
  told: Told[];
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
      throw new AppError(
        'overloaded',
        'Too many calls of this organization are waiting. Repeat the request after Retry-After.',
        { retry_after: 1 },
      );
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
    // Whose items have shared the answers of others.
    leaveUntold(queue.told);
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
    /** What a settled request was charged for; undefined if it cannot be read now. */
    priceLines: createPriceLines(db, log),
    /**
     * Writes events of a gateway in the transaction of the items that wait now. Throws 503 if there
     * are none, or what they need is done apart; then no event is written.
     */
    tell: (org_id: string, key: string | undefined, events: readonly GatewayEvent[]) => {
      const queue = queues.get(org_id);
      if (queue === undefined || key === undefined) throw untold();
      return new Promise<void>((resolve, reject) => {
        queue.told.push({ events, key, resolve, reject });
      });
    },
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
  const queue: Queue = { org_id, told: [], waiting, byId: new Map(), running: undefined };
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
  const told = queue.told.splice(0);
  try {
    await commit(db, queue.org_id, batch, told);
  } catch (error) {
    leaveUntold(told);
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
