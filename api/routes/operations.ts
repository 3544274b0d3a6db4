import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { audit } from '../../domain/ledger/audit';
import { one } from '../../domain/sql';
import { noteOutage, outageOf } from '../../runtime/outages';
import { API_VERSION } from '../../runtime/version';
import * as eventsAnswers from '../answers/events';
import * as moneyAnswers from '../answers/money';
import { open, platformAdmin } from '../http/access';
import { exhaustedOf } from '../http/pools';
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
    summary: '200 while the database works and the process is not draining; names exhausted pools.',
    answer: eventsAnswers.readiness,
  }),
  route({
    method: 'get',
    path: '/v1/admin/audit',
    access: platformAdmin,
    input: nothing,
    handler: runAudit,
    summary: 'Prove the ledger from one snapshot.',
    is_long: true,
    answer: moneyAnswers.audit,
  }),
];

function health() {
  return { status: 'ok', version: API_VERSION };
}

const READY_MS = 1_000;

/**
 * Pools of people that are exhausted are said and no more: an instance that still serves gateways
 * is not to be taken out of service by a tenant's reads.
 */
async function readiness({ pools, isDraining, log }: Ctx) {
  if (isDraining()) throw notReady('This instance is stopping.', 5);
  const asked = one<{ is_read_only: boolean }>(
    pools.machine,
    `select current_setting('transaction_read_only')::boolean or pg_is_in_recovery() as is_read_only`,
  );
  const answer = await Promise.race([
    asked.catch((error) => noteOutage(log, error)),
    sleep(READY_MS, undefined, { ref: false }),
  ]);
  const exhausted = exhaustedOf(pools);
  if (answer === undefined) {
    const is_full = exhausted.includes('machine');
    throw notReady(
      is_full ? 'All connections for gateways are in use.' : 'The database does not answer.',
    );
  }
  if (answer.is_read_only) throw notReady('The database is read-only.');
  const outage = outageOf(log);
  if (outage !== undefined) throw notReady(`The database refuses work (${outage}).`);
  return { status: 'ready', exhausted_pools: exhausted };
}

function notReady(message: string, retry_after = 2): AppError {
  return new AppError('unavailable', message, { retry_after });
}

function runAudit({ db }: Ctx) {
  return audit(db);
}
