import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { audit } from '../../domain/ledger/audit';
import { API_VERSION } from '../../runtime/version';
import * as eventsAnswers from '../answers/events';
import * as moneyAnswers from '../answers/money';
import { open, platformAdmin } from '../http/access';
import { type Ctx, route } from '../http/route';

const nothing = z.strictObject({});

export const operationRoutes = [
  route({
    method: 'get',
    path: '/health',
    access: open,
    input: nothing,
    handler: health,
    summary: 'The process is alive.',
    answer: eventsAnswers.health,
  }),
  route({
    method: 'get',
    path: '/readyz',
    access: open,
    input: nothing,
    handler: readiness,
    summary: '200 while the database answers and the process is not draining.',
    answer: eventsAnswers.readiness,
  }),
  route({
    method: 'get',
    path: '/v1/admin/audit',
    access: platformAdmin,
    input: nothing,
    handler: runAudit,
    summary: 'Prove the ledger from one snapshot.',
    answer: moneyAnswers.audit,
  }),
];

function health() {
  return { status: 'ok', version: API_VERSION };
}

async function readiness({ db, isDraining }: Ctx) {
  if (isDraining())
    throw new AppError('unavailable', 'This instance is stopping.', { retry_after: 5 });
  try {
    await db.raw('select 1').timeout(1_000);
  } catch {
    throw new AppError('unavailable', 'The database does not answer.', { retry_after: 2 });
  }
  return { status: 'ready' };
}

function runAudit({ db }: Ctx) {
  return audit(db);
}
