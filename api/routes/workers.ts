import { z } from 'zod';
import * as outbox from '../../domain/outbox';
import { migrationsOf } from '../../migrations';
import { problemsOf } from '../../temporal/problems';
import * as shared from '../answers/shared';
import * as answers from '../answers/workers';
import { platformAdmin } from '../http/access';
import { id, page } from '../http/fields';
import { type Ctx, route } from '../http/route';

const listed = z.strictObject({
  status: z
    .enum(['waiting', 'parked'])
    .optional()
    .describe('parked: given up after 20 tries, kept for an operator.'),
  ...page,
});
const named = z.strictObject({ id });

export const workerRoutes = [
  route({
    method: 'get',
    path: '/v1/admin/workers/status',
    access: platformAdmin,
    input: z.strictObject({}),
    handler: status,
    summary:
      'Which workers poll for work, what waits, what failed, which migrations are pending, and in words what is wrong; also while Temporal is away.',
    answer: answers.workersStatus,
  }),
  route({
    method: 'get',
    path: '/v1/admin/outbox',
    access: platformAdmin,
    input: listed,
    handler: list,
    summary: 'Messages to Temporal that wait, or were given up, oldest first.',
    answer: shared.list({ messages: answers.outboxMessage }),
  }),
  route({
    method: 'post',
    path: '/v1/admin/outbox/:id/retry',
    access: platformAdmin,
    input: named,
    is_recorded: true,
    handler: ({ db }: Ctx, input) => outbox.retry(db, input.id),
    summary: 'Send a message that was given up once more.',
    answer: answers.outboxMessage,
  }),
];

/** Always 200: an operator asks most when something is away. */
async function status({ db, temporal, log }: Ctx) {
  const [told, look, migrations] = await Promise.all([
    temporal.status().catch((error) => {
      log.warn({ err: error }, 'Temporal could not be asked for the workers');
      return undefined;
    }),
    outbox.counts(db),
    migrationsOf(db),
  ]);
  const problems = problemsOf(told, look);
  const { now: _, ...waiting } = look;
  return {
    status: problems.length === 0 ? 'ok' : 'degraded',
    problems,
    temporal: told === undefined ? 'away' : 'up',
    workers: told?.workers ?? [],
    schedules: told?.schedules ?? [],
    outbox: waiting,
    migrations,
  };
}

async function list({ db }: Ctx, { status: of, ...window }: z.infer<typeof listed>) {
  const { rows, ...rest } = await outbox.list(db, of, window);
  return { messages: rows, ...rest };
}
