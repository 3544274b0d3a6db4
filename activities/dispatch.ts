import type { Client } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import * as outbox from '../domain/outbox';
import type { Db } from '../domain/sql';
import type { Logger } from '../log';

/** How each kind of workflow is started: its queue, and the line that operators read in the Temporal page. */
const kinds: Record<string, { task_queue: string; summary: (message: outbox.Message) => string }> =
  {
    reservationLifetimes: {
      task_queue: 'lifecycle',
      summary: ({ org_name }) => `Holds of organization ${org_name}: expires each at its deadline`,
    },
  };

export const OrgId = defineSearchAttributeKey('OrgId', 'KEYWORD');
export const Kind = defineSearchAttributeKey('Kind', 'KEYWORD');
export const Status = defineSearchAttributeKey('Status', 'KEYWORD');

const SENDS_PER_SECOND = 20;
const CALL_MS_MAX = 2_000;

/** Sends what is due to Temporal, at most 20 messages a call; how many were due. Callers keep a second between calls. */
export async function dispatchDue(db: Db, client: Client, log: Logger): Promise<number> {
  const due = await outbox.claim(db, SENDS_PER_SECOND);
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
    await client.withDeadline(Date.now() + CALL_MS_MAX, () => send(client, message));
    await outbox.done(db, message.id);
  } catch (error) {
    log.warn(
      { err: error, workflow_id: message.workflow_id, attempts: message.attempts },
      'a message did not reach Temporal',
    );
    await outbox.failed(db, message, String(error));
  }
}

/** Every message goes with start: a workflow that has ended meanwhile begins anew and reads its row. */
async function send(client: Client, { org_id, ...message }: outbox.Message): Promise<void> {
  const kind = kinds[message.workflow];
  if (kind === undefined || message.signal === null)
    throw new Error(`No way to send ${message.workflow} is known.`);
  await client.workflow.signalWithStart(message.workflow, {
    workflowId: message.workflow_id,
    taskQueue: kind.task_queue,
    args: [message.input],
    signal: message.signal,
    staticSummary: kind.summary({ org_id, ...message }),
    typedSearchAttributes: new TypedSearchAttributes([
      { key: OrgId, value: org_id },
      { key: Kind, value: message.workflow },
      { key: Status, value: 'running' },
    ]),
  });
}
