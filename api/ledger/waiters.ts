import { setTimeout as sleep } from 'node:timers/promises';
import type { Redeem } from '../../domain/ledger/calls';
import type { ItemAnswer } from '../../domain/ledger/reservations';
import * as tickets from '../../domain/ledger/tickets';
import { type Db, withRetry } from '../../domain/sql';
import { createDeferred } from '../../runtime/deferred';
import type { Logger } from '../../runtime/log';
import { openListener } from '../../runtime/notices';
import type { Batches } from './batches';

/** Lost notices are covered by a look this often. */
const SWEEP_MS = 2_000;
/** Between two looks at one organization's queue: busy traffic notifies of every settlement. */
const PAUSE_MS_MIN = 20;
/**
 * A long queue is looked at less often, so that waiting calls never take the ledger from running
 * ones.
 */
const PAUSE_PER_LOOK = 5;

export type Waiters = ReturnType<typeof openWaiters>;

interface Queue {
  /** The calls of this process that wait, by request_id. */
  calls: Map<string, (row: ItemAnswer | undefined) => void>;
  is_running: boolean;
  /** Something changed while a look was under way. */
  is_due: boolean;
}

interface WaiterParts {
  db: Db;
  batches: Batches;
  database_url: string;
  log: Logger;
}

/** Held redeems of this process: wakes them when PostgreSQL notifies of money or a verdict. */
export function openWaiters({ db, batches, database_url, log }: WaiterParts) {
  const queues = new Map<string, Queue>();
  let is_closing = false;

  const lookAt = (org_id: string): void => {
    const queue = queues.get(org_id);
    if (queue) void look({ db, log }, org_id, queue);
  };
  const lookAtAll = (): void => {
    for (const org_id of queues.keys()) lookAt(org_id);
  };
  const listener = openListener(
    { database_url, channel: 'tickets', log },
    // A connection that was made anew may have missed anything.
    (org_id) => (org_id === undefined ? lookAtAll() : lookAt(org_id)),
  );
  const timer = setInterval(lookAtAll, SWEEP_MS);

  return {
    /**
     * Redeems a ticket; a call that nothing covers waits up to `wait_ms` without holding a
     * connection.
     */
    async redeem(body: Redeem, gone: AbortSignal): Promise<ItemAnswer> {
      const wait_ms = is_closing ? 0 : body.wait_ms;
      if (wait_ms === 0) return batches.redeem({ ...body, wait_ms });
      const { org_id, request_id } = body;
      // Joined before the first try, so that no notice after it is missed.
      const queue = join(queues, org_id);
      const woken = createDeferred<ItemAnswer | undefined>();
      // A gateway that lost its connection asks again: the newer one waits, the older one ends.
      queue.calls.get(request_id)?.(undefined);
      queue.calls.set(request_id, woken.resolve);
      const isNewest = () => queue.calls.get(request_id) === woken.resolve;
      try {
        const first = await batches.redeem({ ...body, wait_ms });
        if (first.code !== 'insufficient_balance') return first;
        const answer = await waitFor(woken.promise, wait_ms, gone);
        if (answer !== undefined) return answer;
        if (!isNewest()) return first;
        if (gone.aborted) {
          await tickets.leave(db, org_id, request_id);
          return first;
        }
        // The last redeem runs under the lock at the end of the wait: no hold is made for a call
        // that has left.
        return await batches.redeem({ ...body, wait_ms: 0 });
      } finally {
        if (isNewest()) queue.calls.delete(request_id);
        // A queue of the same organization that was opened meanwhile is another one's.
        if (queue.calls.size === 0 && queues.get(org_id) === queue) queues.delete(org_id);
      }
    },
    /**
     * Ends every wait with the answer of now, and resolves when each is answered; new redeems no
     * longer wait.
     */
    async close(): Promise<void> {
      is_closing = true;
      clearInterval(timer);
      for (const queue of queues.values()) for (const end of queue.calls.values()) end(undefined);
      while (queues.size > 0) await sleep(PAUSE_MS_MIN);
      await listener.close();
    },
  };
}

/** Asks for the answers of the calls that wait, until nothing more has changed. */
async function look(
  { db, log }: Pick<WaiterParts, 'db' | 'log'>,
  org_id: string,
  queue: Queue,
): Promise<void> {
  queue.is_due = true;
  if (queue.is_running) return;
  queue.is_running = true;
  while (queue.is_due && queue.calls.size > 0) {
    queue.is_due = false;
    let answered = 0;
    const started_at = performance.now();
    try {
      const names = [...queue.calls.keys()];
      const rows = await withRetry(() => tickets.redeemWaiting(db, org_id, names));
      for (const { request_id, ...row } of rows) queue.calls.get(request_id)?.(row);
      answered = rows.length;
    } catch (error) {
      log.warn({ err: error, org_id }, 'the waiting calls of an organization could not be served');
    }
    // There may be money for more of them: the next look comes at once.
    if (answered > 0) queue.is_due = true;
    const took_ms = performance.now() - started_at;
    await sleep(answered > 0 ? 0 : Math.max(PAUSE_MS_MIN, took_ms * PAUSE_PER_LOOK));
  }
  queue.is_running = false;
}

function join(queues: Map<string, Queue>, org_id: string): Queue {
  const queue = queues.get(org_id) ?? { calls: new Map(), is_running: false, is_due: false };
  queues.set(org_id, queue);
  return queue;
}

/** The answer that came in time, else undefined. */
function waitFor(
  woken: Promise<ItemAnswer | undefined>,
  wait_ms: number,
  gone: AbortSignal,
): Promise<ItemAnswer | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, wait_ms, undefined);
    const leave = () => resolve(undefined);
    gone.addEventListener('abort', leave);
    void woken.then(resolve).finally(() => {
      clearTimeout(timer);
      gone.removeEventListener('abort', leave);
    });
  });
}
