import {
  type Client,
  ScheduleAlreadyRunning,
  ScheduleNotFoundError,
  type ScheduleOptions,
  ScheduleOverlapPolicy,
  type ScheduleSpec,
} from '@temporalio/client';
import * as outbox from '../domain/outbox';
import type { Db } from '../domain/sql';
import { type ScheduleId, schedule_queues } from './queues';

export const schedule_ids = Object.keys(schedule_queues) as ScheduleId[];

interface Schedule {
  id: ScheduleId;
  spec: ScheduleSpec;
  summary: string;
  /** Runs once as it is made. */
  at_once: boolean;
}

const audit: Schedule = {
  id: 'audit',
  spec: { calendars: [{ hour: 3, minute: 30 }] },
  summary: 'Proves the whole ledger, each night at 03:30 UTC',
  at_once: false,
};

const reconcile: Schedule = {
  id: 'reconcile',
  spec: { intervals: [{ every: '5 minutes' }] },
  summary:
    'Gives orphan holds, tickets, payments and rollouts their workflow again, forgets old answers',
  at_once: true,
};

const exportUpkeep: Schedule = {
  id: 'exportUpkeep',
  spec: { intervals: [{ every: '5 minutes' }] },
  summary: 'Deletes files of exports past their time, gives orphan exports their workflow again',
  at_once: false,
};

const pricesCheck: Schedule = {
  id: 'pricesCheck',
  spec: { calendars: [{ hour: 4, minute: 10 }] },
  summary: 'Compares prices with the catalog inside, each night at 04:10 UTC; changes nothing',
  at_once: false,
};

/**
 * Makes the schedules that are missing. If that of reconcile is, Temporal's store is new or was
 * lost: then the workflows of everything unfinished are asked for again, before the schedule is
 * there, so that a failure leaves that for the next try. Returns how many.
 */
export async function makeSchedules(client: Client, db: Db): Promise<number> {
  await make(client, audit);
  await make(client, exportUpkeep);
  await make(client, pricesCheck);
  if (await isThere(client, reconcile)) return 0;
  const count = await outbox.resendUnfinished(db);
  await make(client, reconcile);
  return count;
}

/**
 * The same, and brings each schedule that exists to the definition of this program: an older
 * version may have left another. A person's pause stays.
 */
export async function bringSchedules(client: Client, db: Db): Promise<number> {
  const count = await makeSchedules(client, db);
  for (const schedule of [audit, reconcile, exportUpkeep, pricesCheck]) {
    const { spec, policies, action } = definition(schedule);
    await client.schedule
      .getHandle(schedule.id)
      .update(({ state }) => ({ spec, policies, action, state }));
  }
  return count;
}

async function make(client: Client, schedule: Schedule): Promise<void> {
  await client.schedule.create(definition(schedule)).catch((error) => {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  });
}

async function isThere(client: Client, { id }: Schedule): Promise<boolean> {
  try {
    await client.schedule.getHandle(id).describe();
    return true;
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return false;
    throw error;
  }
}

/** A schedule runs the workflow of its own name. */
function definition({ id, spec, summary, at_once }: Schedule) {
  return {
    scheduleId: id,
    spec,
    policies: { overlap: ScheduleOverlapPolicy.SKIP },
    action: {
      type: 'startWorkflow',
      workflowType: id,
      workflowId: id,
      taskQueue: schedule_queues[id],
      staticSummary: summary,
    },
    state: { triggerImmediately: at_once },
  } satisfies ScheduleOptions;
}
