import { type Db, many, maybe } from '../sql';

// What is wrong with the workers is an event of the platform once, however often somebody looks.

/** A queue that nobody polls, work that nobody takes, or messages that were given up. */
export interface WorkerTrouble {
  type: 'worker.missing' | 'worker.behind' | 'outbox.parked';
  /** The queue that it is about. */
  task_queue: string;
  worker: string;
  /** What is wrong, and what to do. */
  problem: string;
  /** When it last grew, if it is more than that it lasts: later than that it is told of again. */
  up_to?: Date | undefined;
}

/** So long a trouble lasts before it is told of: a worker that is just restarted is none. */
const LASTS_SECONDS = 60;
/** One that grows is told of again after this long at the earliest. */
const AGAIN_MINUTES = 10;

/** True for one of several who ask at once, if the last look is so many seconds ago. */
export async function claimLook(db: Db, every_seconds: number): Promise<boolean> {
  const claimed = await maybe(
    db,
    `update worker_looks set looked_at = clock_timestamp()
     where looked_at < clock_timestamp() - :every_seconds * interval '1 second' returning 1`,
    { every_seconds },
  );
  return claimed !== undefined;
}

/**
 * Notes what is wrong now, and writes an event for what has lasted a minute and was not told of;
 * how many. What is well again is forgotten, of the types that were looked at.
 */
export function noteTroubles(
  db: Db,
  troubles: readonly WorkerTrouble[],
  looked_at: readonly WorkerTrouble['type'][],
): Promise<number> {
  const ids = troubles.map(({ type, task_queue }) => `${type} ${task_queue}`);
  return db.transaction(async (trx) => {
    await many(
      trx,
      `delete from worker_troubles t where split_part(t.id, ' ', 1) = any(:looked_at) and t.id <> all(:ids)`,
      { looked_at: [...looked_at], ids },
    );
    let told = 0;
    for (const [n, trouble] of troubles.entries()) {
      const id = ids[n] as string;
      await many(trx, 'insert into worker_troubles (id) values (:id) on conflict do nothing', {
        id,
      });
      if (await isNews(trx, id, trouble)) {
        await tell(trx, trouble);
        told += 1;
      }
    }
    return told;
  });
}

/** True, and noted as told, for what has lasted, and was not told of or has grown since. */
async function isNews(trx: Db, id: string, { up_to }: WorkerTrouble): Promise<boolean> {
  const news = await maybe(
    trx,
    `update worker_troubles t set told_at = clock_timestamp(), told_up_to = :up_to
     where t.id = :id and t.first_seen_at <= clock_timestamp() - :lasts * interval '1 second'
       and (t.told_at is null or (t.told_up_to < :up_to::timestamptz and t.told_at < clock_timestamp() - :again * interval '1 minute'))
     returning 1`,
    { id, up_to: up_to ?? null, lasts: LASTS_SECONDS, again: AGAIN_MINUTES },
  );
  return news !== undefined;
}

async function tell(trx: Db, { type, task_queue, worker, problem }: WorkerTrouble): Promise<void> {
  await many(
    trx,
    `select append_event('platform', :type, jsonb_build_object('worker', :worker::text, 'task_queue', :task_queue::text,
       'problem', :problem::text))`,
    { type, worker, task_queue, problem },
  );
}
