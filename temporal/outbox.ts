import type { Client } from '@temporalio/client';
import * as tickets from '../domain/ledger/tickets';
import * as outbox from '../domain/outbox';
import type { Db } from '../domain/sql';
import type { Logger } from '../runtime/log';
import { isAway } from './connection';
import { isWanted, startOptions } from './starts';
import { inTrace } from './traces';

const CLAIM_MAX = 20;
const CALL_MS_MAX = 2_000;
/** Callers wait so long for each message that was due: 20 sends a second. */
export const SEND_PACE_MS = 50;

/** Sends due messages to Temporal, at most 20; returns how many were due. */
export async function dispatchDue(db: Db, client: Client, log: Logger): Promise<number> {
  const due = await outbox.claim(db, CLAIM_MAX);
  await Promise.all(due.map((message) => deliver(db, client, message, log)));
  return due.length;
}

async function deliver(
  db: Db,
  client: Client,
  message: outbox.Message,
  log: Logger,
): Promise<void> {
  try {
    await client.withDeadline(Date.now() + CALL_MS_MAX, () => send(db, client, message));
    await outbox.done(db, message);
  } catch (error) {
    log.warn(
      { err: error, workflow_id: message.workflow_id, attempts: message.attempts },
      'a message did not reach Temporal',
    );
    // While Temporal is away, or lacks its namespace, no message is at fault, so none is given up.
    if (isAway(error)) await outbox.postponed(db, message, String(error));
    else await outbox.failed(db, message, String(error));
  }
}

/**
 * Every message goes with start: a workflow that has ended meanwhile begins anew and reads its row.
 */
async function send(db: Db, client: Client, message: outbox.Message): Promise<void> {
  const { signal, workflow, input } = message;
  // Closed while its start waited its turn: there is nothing left to wait for.
  if (signal === null && !(await isWanted(db, message))) return;
  const start = { ...(await startOptions(db, message)), args: [input] };
  if (signal !== null) {
    await client.workflow.signalWithStart(workflow, { ...start, signal });
    return;
  }
  const trace =
    workflow === 'costTicket' ? await tickets.traceOf(db, message.workflow_id) : undefined;
  const sender = trace === undefined ? client : inTrace(client, trace);
  await sender.workflow.start(workflow, { ...start, workflowIdConflictPolicy: 'USE_EXISTING' });
}
