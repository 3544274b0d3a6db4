import { setImmediate } from 'node:timers/promises';
import { AppError, isAppError } from '../../domain/errors';
import type * as calls from '../../domain/ledger/calls';
import * as reservations from '../../domain/ledger/reservations';
import { type Db, isTransient, isUnreachable, withRetry } from '../../domain/sql';
import { type Trace, traceOf } from '../../domain/trace';
import type { Logger } from '../../runtime/log';

type LaneAnswer = reservations.LaneAnswer;

/** The most items of one commit, and the most that may wait in one organization's lane before callers are told 503. */
const BATCH_MAX = 64;
const WAITING_MAX = 4_000;
/** Pauses before a batch of unknown outcome is sent again; it is the same batch, and every item has an id. */
const RESEND_MS = [50, 250, 1_000];

export interface Lanes {
  /** Refusals are rows (`code`); throws only where the ledger is away or the lane is full. */
  reserve(body: calls.Reserve): Promise<LaneAnswer>;
  settle(body: calls.Settle & { org_id: string }): Promise<LaneAnswer>;
  redeem(body: calls.Redeem): Promise<LaneAnswer>;
  /** Resolves when everything that waits is committed. */
  close(): Promise<void>;
}

type Op = LaneAnswer['op'];

/** Some of what waits, of each kind. */
type Batch = Record<Op, Waiting[]>;

interface Waiting {
  /** `reserve:<request_id>`, `redeem:<request_id>` or `settle:<id>`: a second call under it shares the first one's answer. */
  id: string;
  /** What must be equal for the sharing: the item as text. */
  text: string;
  item: Record<string, unknown>;
  /** Of a reserve: its trace. */
  trace?: Trace | undefined;
  answer: Promise<LaneAnswer>;
  resolve: (row: LaneAnswer) => void;
  reject: (error: unknown) => void;
}

interface Lane {
  org_id: string;
  /** In the order of the commit: what is given back, who has waited for it, who is new. */
  queues: Batch;
  byId: Map<string, Waiting>;
  running: Promise<void> | undefined;
}

/**
 * Coalesces what waits for one organization's lock into one call and one commit, settlements first (docs/decisions.md, 1 and 2).
 * An idle lane sends in the same turn of the event loop; while a batch is out the next one gathers.
 */
export function createLanes(db: Db, log: Logger): Lanes {
  const lanes = new Map<string, Lane>();

  async function submit(op: Op, org_id: string, entry: Entry): Promise<LaneAnswer> {
    const lane = lanes.get(org_id) ?? openLane(lanes, org_id);
    const earlier = lane.byId.get(entry.id);
    if (earlier?.text === entry.text) return earlier.answer;
    if (earlier) {
      // The same id with another body waits its turn, so that the ledger tells the two apart.
      await earlier.answer.catch(() => undefined);
      return submit(op, org_id, entry);
    }
    if (lane.byId.size >= WAITING_MAX)
      throw new AppError('overloaded', 'Too many calls of this organization are waiting.');
    const waiting = enqueue(lane, lane.queues[op], entry);
    lane.running ??= run(lane);
    return waiting.answer;
  }

  async function run(lane: Lane): Promise<void> {
    while (lane.byId.size > 0) {
      // All that arrived in one turn of the event loop leaves together: the first item of a call does not go alone.
      await setImmediate();
      await sendBatch(db, lane, log);
    }
    lanes.delete(lane.org_id);
  }

  return {
    reserve(body) {
      const item = reservations.reserveItem(body);
      return submit('reserve', body.org_id, {
        id: `reserve:${body.request_id}`,
        text: JSON.stringify(item),
        item,
        trace: traceOf(body),
      });
    },
    settle(body) {
      const item = reservations.settleItem(body);
      const { reservation_id, request_id } = body;
      const name =
        reservation_id === undefined ? `request:${request_id}` : `hold:${reservation_id}`;
      // Only equal settles share an answer: the refusal of a wrong one is nobody else's.
      return submit('settle', body.org_id, {
        id: `settle:${name}`,
        text: JSON.stringify(item),
        item,
      });
    },
    redeem(body) {
      const item = reservations.redeemItem(body);
      return submit('redeem', body.org_id, {
        id: `redeem:${body.request_id}`,
        text: JSON.stringify(item),
        item,
      });
    },
    async close() {
      while (lanes.size > 0) await Promise.all([...lanes.values()].map((lane) => lane.running));
    },
  };
}

type Entry = Pick<Waiting, 'id' | 'text' | 'item' | 'trace'>;

function openLane(lanes: Map<string, Lane>, org_id: string): Lane {
  const queues = { settle: [], redeem: [], reserve: [] };
  const lane: Lane = { org_id, queues, byId: new Map(), running: undefined };
  lanes.set(org_id, lane);
  return lane;
}

function enqueue(lane: Lane, queue: Waiting[], entry: Entry): Waiting {
  const { promise, resolve, reject } = deferred();
  // Gone with its answer, not with its batch: whoever waits for the one before to tell two apart asks again at once.
  const gone = () => lane.byId.get(entry.id) === waiting && lane.byId.delete(entry.id);
  const waiting: Waiting = {
    ...entry,
    answer: promise,
    resolve(row) {
      gone();
      resolve(row);
    },
    reject(error) {
      gone();
      reject(error);
    },
  };
  queue.push(waiting);
  lane.byId.set(entry.id, waiting);
  return waiting;
}

async function sendBatch(db: Db, lane: Lane, log: Logger): Promise<void> {
  const batch = nextBatch(lane.queues);
  try {
    await send(db, lane.org_id, batch);
  } catch (error) {
    if (isUnreachable(error) || (isAppError(error) && error.code === 'unavailable')) {
      for (const waiting of allOf(batch)) waiting.reject(error);
    } else {
      log.error({ err: error, org_id: lane.org_id }, 'a batch failed; its items go one by one');
      await sendSingly(db, lane.org_id, batch);
    }
  }
}

function nextBatch(queues: Batch): Batch {
  let room = BATCH_MAX;
  const take = (queue: Waiting[]) => {
    const taken = queue.splice(0, room);
    room -= taken.length;
    return taken;
  };
  return {
    settle: take(queues.settle),
    redeem: take(queues.redeem),
    reserve: take(queues.reserve),
  };
}

function allOf({ settle, redeem, reserve }: Batch): Waiting[] {
  return [...settle, ...redeem, ...reserve];
}

async function sendSingly(db: Db, org_id: string, batch: Batch): Promise<void> {
  for (const op of ['settle', 'redeem', 'reserve'] as const) {
    for (const waiting of batch[op]) {
      const alone = { settle: [], redeem: [], reserve: [], [op]: [waiting] };
      await send(db, org_id, alone).catch(waiting.reject);
    }
  }
}

async function send(db: Db, org_id: string, batch: Batch): Promise<void> {
  const items = {
    settlements: batch.settle.map(itemOf),
    redeems: batch.redeem.map(itemOf),
    reserves: batch.reserve.map(itemOf),
    traces: tracesOf(batch.reserve),
  };
  const rows = await resend(() => withRetry(() => reservations.lane(db, org_id, items)));
  const left = new Set(allOf(batch));
  for (const row of rows) {
    const waiting = batch[row.op][row.n - 1];
    waiting?.resolve(row);
    if (waiting !== undefined) left.delete(waiting);
  }
  // Empty unless a stored function forgot an item; then its caller must not wait for ever.
  for (const waiting of left) {
    waiting.reject(new AppError('internal_error', 'The ledger did not answer this item.'));
  }
}

/** Repeats a call whose outcome the broken connection hid. */
async function resend<T>(call: () => Promise<T>): Promise<T> {
  for (const pause_ms of RESEND_MS) {
    try {
      return await call();
    } catch (error) {
      if (!isUnreachable(error) || isTransient(error)) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause_ms));
    }
  }
  return call();
}

/** Undefined where none is traced. */
function tracesOf(reserves: readonly Waiting[]): Record<string, Trace> | undefined {
  let traces: Record<string, Trace> | undefined;
  for (const { item, trace } of reserves) {
    if (trace === undefined) continue;
    traces ??= {};
    traces[item.request_id as string] = trace;
  }
  return traces;
}

function itemOf({ item }: Waiting): Record<string, unknown> {
  return item;
}

function deferred() {
  let resolve!: (row: LaneAnswer) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<LaneAnswer>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  // A caller that has gone leaves its rejection unheard; that is no reason to end the process.
  promise.catch(() => undefined);
  return { promise, resolve, reject };
}
