import type { WorkerTrouble } from '../domain/notices/worker-troubles';
import type { OutboxLook } from '../domain/outbox';
import { fitsWithApi, unfitWords } from '../runtime/version';
import type { WorkerName } from './queues';
import type { QueueStatus, ScheduleStatus, TemporalStatus } from './status';

// A task or message that nobody has taken for so long is a worker's trouble, not a busy minute.
const LATE_SECONDS = 60;
// Two runs of a schedule that runs each five minutes, or each night.
const OVERDUE_HOURS = { reconcile: 0.25, audit: 50, exportUpkeep: 0.25, pricesCheck: 50 } as const;
const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** Stands in the words about workflows of a queue that failed. */
export const failedWords = (task_queue: string) => `of ${task_queue} failed within the last day`;

/** Something that is wrong, in words; with what the platform is told of it, if it is. */
interface Problem {
  text: string;
  trouble?: Omit<WorkerTrouble, 'problem'>;
}

/** Plain words for an operator: what is wrong, and what to do. Empty while all is well. */
export function problemsOf(
  temporal: TemporalStatus | undefined,
  outbox: OutboxLook,
  now = Date.now(),
): string[] {
  return all(temporal, outbox, now).map(({ text }) => text);
}

/** Of what is wrong, what the platform is told of. */
export function troublesOf(
  temporal: TemporalStatus | undefined,
  outbox: OutboxLook,
  now = Date.now(),
): WorkerTrouble[] {
  return all(temporal, outbox, now).flatMap(({ text, trouble }) =>
    trouble ? [{ ...trouble, problem: text }] : [],
  );
}

function all(
  temporal: TemporalStatus | undefined,
  outbox: OutboxLook,
  now: number,
): readonly Problem[] {
  return [
    ...(temporal === undefined
      ? [{ text: 'Temporal does not answer. Nothing is known of the workers.' }]
      : []),
    ...(temporal?.workers ?? []).flatMap(({ name, queues }) =>
      queues.flatMap((queue) => queueProblems(name, queue)),
    ),
    ...(temporal?.schedules ?? []).flatMap((schedule) =>
      scheduleProblems(schedule, now).map((text) => ({ text })),
    ),
    ...outboxProblems(outbox),
  ];
}

function outboxProblems({
  parked,
  oldest_waiting_since,
  newest_parked_at,
  now,
}: OutboxLook): Problem[] {
  const about = { worker: 'worker_lifecycle', task_queue: 'outbox' } as const;
  const since = oldest_waiting_since ?? now;
  const waiting_s = (now.getTime() - since.getTime()) / 1_000;
  return [
    ...(waiting_s > LATE_SECONDS
      ? [
          {
            text: `A message to Temporal has waited for ${Math.round(waiting_s)} s in the outbox. Does worker_lifecycle run, and reach Temporal?`,
            trouble: { type: 'worker.behind' as const, ...about },
          },
        ]
      : []),
    ...(parked > 0
      ? [
          {
            text: `${counted(parked, 'message')} to Temporal ${parked === 1 ? 'was' : 'were'} given up. See GET /v1/admin/outbox?status=parked, and send one again with POST /v1/admin/outbox/{id}/retry.`,
            trouble: {
              type: 'outbox.parked' as const,
              ...about,
              up_to: newest_parked_at ?? undefined,
            },
          },
        ]
      : []),
  ];
}

function queueProblems(worker: WorkerName, queue: QueueStatus): Problem[] {
  const { task_queue, pollers, oldest_task_age_seconds, failed_workflows_last_day } = queue;
  const about = { worker, task_queue };
  const odd = pollers.filter(({ version }) => version === null || !fitsWithApi(version));
  return [
    ...(pollers.length === 0
      ? [
          {
            text: `No ${worker} polls the queue ${task_queue}. Start one: npm run start:worker -- ${worker.replace('worker_', '')}.`,
            trouble: { type: 'worker.missing' as const, ...about },
          },
        ]
      : []),
    ...odd.map(({ identity, version }) => ({
      text:
        version === null
          ? `${identity} polls ${task_queue} and says no version: it is older than 1.5.`
          : `${identity} polls ${task_queue}. ${unfitWords('workers', version)}`,
    })),
    ...(oldest_task_age_seconds > LATE_SECONDS
      ? [
          {
            text: `A task of ${task_queue} has waited for ${oldest_task_age_seconds} s. Does ${worker} hang, or are there too few?`,
            trouble: { type: 'worker.behind' as const, ...about },
          },
        ]
      : []),
    ...(failed_workflows_last_day > 0
      ? [
          {
            text: `${counted(failed_workflows_last_day, 'workflow')} ${failedWords(task_queue)}. The Temporal page says why: ExecutionStatus = "Failed".`,
          },
        ]
      : []),
  ];
}

function scheduleProblems({ id, status, last_ended_at, last_result }: ScheduleStatus, now: number) {
  if (status === 'missing')
    return [`The schedule ${id} is missing. Make it: npm run admin -- prepare.`];
  if (status === 'paused')
    return [`The schedule ${id} is paused. Unpause it in the Temporal page.`];
  if (last_ended_at === null) return [];
  const ago_ms = now - last_ended_at.getTime();
  return [
    ...(ago_ms > OVERDUE_HOURS[id] * HOUR_MS
      ? [`The schedule ${id} last ended ${timeIn(ago_ms)} ago.`]
      : []),
    ...(last_result === 'completed' ? [] : [`The last run of ${id} ended as ${last_result}.`]),
  ];
}

/** `17 minutes`, from two hours on `3 hours`. */
function timeIn(ms: number): string {
  const minutes = Math.round(ms / MINUTE_MS);
  return minutes < 120 ? counted(minutes, 'minute') : counted(Math.round(ms / HOUR_MS), 'hour');
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
