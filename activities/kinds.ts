import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import type { Db } from '../domain/sql';
import * as tickets from '../domain/tickets';

/** What is started: the workflow's type and id, and whose it is. */
export interface Start {
  workflow: string;
  workflow_id: string;
  org_id: string;
  org_name: string;
}

interface Kind {
  task_queue: 'lifecycle' | 'payments';
  /** The line that operators read in the Temporal page; undefined where the row is closed and nothing need run. */
  summary: (db: Db, start: Start) => Promise<string | undefined>;
}

// How each kind of workflow is started.
const kinds: Record<string, Kind> = {
  reservationLifetimes: {
    task_queue: 'lifecycle',
    summary: async (_, { org_name }) =>
      `Holds of organization ${org_name}: expires each at its deadline`,
  },
  costTicket: {
    task_queue: 'lifecycle',
    summary: async (db, { workflow_id }) =>
      (await tickets.statusOf(db, workflow_id)) === 'open'
        ? tickets.summary(db, workflow_id)
        : undefined,
  },
};

const OrgId = defineSearchAttributeKey('OrgId', 'KEYWORD');
const Kind = defineSearchAttributeKey('Kind', 'KEYWORD');
const Status = defineSearchAttributeKey('Status', 'KEYWORD');

/** Id, queue, summary and search attributes of a workflow's start; undefined where its row is closed. */
export async function startOptions(db: Db, start: Start) {
  const kind = kinds[start.workflow];
  if (kind === undefined) throw new Error(`No way to start ${start.workflow} is known.`);
  const summary = await kind.summary(db, start);
  if (summary === undefined) return undefined;
  return {
    workflowId: start.workflow_id,
    taskQueue: kind.task_queue,
    // Temporal takes at most 200 bytes.
    staticSummary: summary.slice(0, 190),
    typedSearchAttributes: new TypedSearchAttributes([
      { key: OrgId, value: start.org_id },
      { key: Kind, value: start.workflow },
      { key: Status, value: 'running' },
    ]),
  };
}
