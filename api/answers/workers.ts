import { z } from 'zod';
import type { OutboxCounts, OutboxMessage } from '../../domain/outbox';
import type { Migrations } from '../../migrations';
import type { Wire } from '../../runtime/wire';
import { type WorkerName, worker_queues } from '../../temporal/queues';
import type { ScheduleStatus, WorkerStatus } from '../../temporal/status';
import type { Members } from '../http/fields';
import { id, time } from './shared';

const poller = z.strictObject({
  identity: z.string().describe('Program, version and process.'),
  version: z.string().nullable(),
  last_seen_at: time,
});

const queue = z.strictObject({
  task_queue: z.string(),
  pollers: z.array(poller).describe('The processes that asked for work within 90 s.'),
  backlog: z.int().describe("Tasks that nobody has taken yet, by Temporal's estimate."),
  oldest_task_age_seconds: z.int(),
  running_workflows: z.int(),
  failed_workflows_last_day: z.int().describe('Failed, timed out or terminated.'),
  last_failed_at: time.nullable().describe('When the newest of those ended.'),
} satisfies Members<Wire<WorkerStatus['queues'][number]>>);

const worker_names = Object.keys(worker_queues) as WorkerName[];

export const workersStatus = z.strictObject({
  status: z.enum(['ok', 'degraded']).describe('degraded: problems says why.'),
  problems: z.array(z.string()).describe('What is wrong and what to do, in words.'),
  temporal: z.enum(['up', 'away']),
  workers: z
    .array(z.strictObject({ name: z.enum(worker_names), queues: z.array(queue) }))
    .describe('Empty while Temporal is away.'),
  schedules: z.array(
    z.strictObject({
      id: z.enum(['reconcile', 'audit', 'exportUpkeep', 'pricesCheck']),
      status: z.enum(['active', 'paused', 'missing']),
      last_ended_at: time.nullable(),
      last_result: z.string().nullable().describe('completed, or how its newest run ended.'),
      next_at: time.nullable(),
    } satisfies Members<Wire<ScheduleStatus>>),
  ),
  outbox: z.strictObject({
    waiting: z.int(),
    parked: z.int().describe('Given up after 20 tries: see GET /v1/admin/outbox.'),
    oldest_waiting_since: time.nullable(),
    newest_parked_at: time.nullable(),
  } satisfies Members<Wire<OutboxCounts>>),
  migrations: z.strictObject({
    applied: z.int().describe('How many the database has.'),
    pending: z
      .array(z.string())
      .describe(
        'What it lacks of those of this API, as after a restore: a start of an API applies them.',
      ),
  } satisfies Members<Migrations>),
});

export const outboxMessage = z.strictObject({
  id,
  org_id: id,
  workflow: z.string().describe('The kind of workflow that it starts or signals.'),
  workflow_id: id,
  signal: z.string().nullable().describe('Null: it starts the workflow and says no more.'),
  created_at: time,
  attempts: z.int().describe('Tries so far; after 20 it is parked.'),
  next_at: time,
  parked_at: time.nullable(),
  last_error: z.string().nullable(),
} satisfies Members<Wire<OutboxMessage>>);
