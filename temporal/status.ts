import {
  type Client,
  type ScheduleExecutionResult,
  ScheduleNotFoundError,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { type ScheduleId, versionIn, type WorkerName, worker_queues } from './queues';
import { schedule_ids } from './schedules';

/** One process that asks a task queue for work. */
export interface Poller {
  /** Program, version and process, as the worker names itself. */
  identity: string;
  /** Null if the identity says none. */
  version: string | null;
  last_seen_at: Date;
}

export interface QueueStatus {
  task_queue: string;
  pollers: Poller[];
  /** Tasks that no worker has taken yet, as Temporal estimates them. */
  backlog: number;
  oldest_task_age_seconds: number;
  running_workflows: number;
  /** Failed, timed out or terminated within the last day. */
  failed_workflows_last_day: number;
  /** When the newest of those ended. */
  last_failed_at: Date | null;
}

export interface WorkerStatus {
  name: WorkerName;
  queues: QueueStatus[];
}

export interface ScheduleStatus {
  id: ScheduleId;
  status: 'active' | 'paused' | 'missing';
  /** The newest run that has ended, and how; null if none has. */
  last_ended_at: Date | null;
  last_result: string | null;
  next_at: Date | null;
}

export interface TemporalStatus {
  workers: WorkerStatus[];
  schedules: ScheduleStatus[];
}

// All questions together: an operator's page asks again every few seconds.
const WITHIN_MS = 3_000;
// Temporal keeps one that is silent for five minutes; a living one asks at least each minute.
const LIVING_MS = 90_000;

// Temporal's own numbers of the two kinds of tasks.
const task_kinds = [1, 2] as const;

/** What Temporal says of the workers and schedules. Throws if it does not answer within 3 s. */
export function temporalStatus(client: Client): Promise<TemporalStatus> {
  return client.withDeadline(Date.now() + WITHIN_MS, async () => {
    // One question first: where Temporal is away, no other goes on trying once this one has failed.
    await client.workflowService.describeNamespace({ namespace: client.options.namespace });
    const [workers, schedules] = await Promise.all([
      Promise.all(
        Object.entries(worker_queues).map(async ([name, queues]) => ({
          name: name as WorkerName,
          queues: await Promise.all(queues.map((queue) => queueStatus(client, queue))),
        })),
      ),
      Promise.all(schedule_ids.map((id) => scheduleStatus(client, id))),
    ]);
    return { workers, schedules };
  });
}

async function queueStatus(client: Client, task_queue: string): Promise<QueueStatus> {
  const { namespace } = client.options;
  const described = Promise.all(
    task_kinds.map((taskQueueType) =>
      client.workflowService.describeTaskQueue({
        namespace,
        taskQueue: { name: task_queue },
        taskQueueType,
        reportStats: true,
      }),
    ),
  );
  const count = async (query: string) =>
    (await client.workflow.count(`TaskQueue = '${task_queue}' and ${query}`)).count;
  const yesterday = new Date(Date.now() - 86_400_000).toISOString();
  const failed = `ExecutionStatus in ('Failed', 'TimedOut', 'Terminated') and CloseTime > '${yesterday}'`;
  const [answers, running_workflows, failed_workflows_last_day] = await Promise.all([
    described,
    count(`ExecutionStatus = 'Running'`),
    count(failed),
  ]);
  const stats = answers.map((answer) => answer.stats);
  return {
    task_queue,
    pollers: livingPollers(answers.flatMap(({ pollers }) => pollers)),
    backlog: stats.reduce((sum, one) => sum + Number(one?.approximateBacklogCount ?? 0), 0),
    oldest_task_age_seconds: Math.max(
      ...stats.map((one) => Number(one?.approximateBacklogAge?.seconds ?? 0)),
    ),
    running_workflows,
    failed_workflows_last_day,
    last_failed_at:
      failed_workflows_last_day > 0 ? await newestEnd(client, task_queue, failed) : null,
  };
}

/** When the newest workflow of a queue that meets a condition ended: Temporal lists it first. */
async function newestEnd(client: Client, task_queue: string, condition: string) {
  const query = `TaskQueue = '${task_queue}' and ${condition}`;
  for await (const { closeTime } of client.workflow.list({ query, pageSize: 1 }))
    return closeTime ?? null;
  return null;
}

interface Seen {
  identity?: string | null;
  lastAccessTime?: { seconds?: unknown } | null;
}

/** One a process, though it polls for workflows and activities. */
function livingPollers(seen: readonly Seen[]): Poller[] {
  const pollers = new Map<string, Poller>();
  for (const { identity, lastAccessTime } of seen) {
    const last_seen_at = new Date(Number(lastAccessTime?.seconds ?? 0) * 1_000);
    if (!identity || Date.now() - last_seen_at.getTime() > LIVING_MS) continue;
    const known = pollers.get(identity);
    if (known && known.last_seen_at >= last_seen_at) continue;
    pollers.set(identity, { identity, version: versionIn(identity), last_seen_at });
  }
  return [...pollers.values()].sort((a, b) => a.identity.localeCompare(b.identity));
}

async function scheduleStatus(client: Client, id: ScheduleId): Promise<ScheduleStatus> {
  const described = await client.schedule
    .getHandle(id)
    .describe()
    .catch((error) => {
      if (error instanceof ScheduleNotFoundError) return undefined;
      throw error;
    });
  if (described === undefined)
    return { id, status: 'missing', last_ended_at: null, last_result: null, next_at: null };
  const { state, info } = described;
  const last = await lastEnd(client, info.recentActions);
  return {
    id,
    status: state.paused ? 'paused' : 'active',
    last_ended_at: last?.closeTime ?? null,
    last_result: last?.status.name.toLowerCase() ?? null,
    next_at: info.nextActionTimes[0] ?? null,
  };
}

/** The newest run that has ended; undefined if none has, or Temporal has forgotten them. */
async function lastEnd(client: Client, runs: readonly ScheduleExecutionResult[]) {
  for (const { action } of [...runs].reverse()) {
    const { workflowId, firstExecutionRunId } = action.workflow;
    const run = await client.workflow
      .getHandle(workflowId, firstExecutionRunId)
      .describe()
      .catch((error) => {
        if (error instanceof WorkflowNotFoundError) return undefined;
        throw error;
      });
    if (run?.closeTime) return run;
  }
  return undefined;
}
