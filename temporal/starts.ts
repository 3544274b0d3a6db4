import {
  defineSearchAttributeKey,
  TypedSearchAttributes,
  type UpdateDefinition,
} from '@temporalio/common';
import * as exports from '../domain/exports/exports';
import * as rollouts from '../domain/gateways/rollouts';
import * as tickets from '../domain/ledger/tickets';
import * as notices from '../domain/notices/messages';
import * as refunds from '../domain/payments/refunds';
import * as payments from '../domain/payments/steps';
import * as organizations from '../domain/people/organizations';
import type { Db } from '../domain/sql';
import { cut } from '../domain/texts';
import type * as workflows from '../workflows';
import type { TaskQueue } from './queues';

/** The workflows that run for a row, each with the updates that it takes. */
interface UpdatesOf {
  reservationLifetimes: never;
  costTicket: typeof workflows.decide;
  paymentSession: typeof workflows.approval | typeof workflows.confirm | typeof workflows.cancel;
  paymentRefund: typeof workflows.refundResult;
  exportJob: never;
  configRollout: never;
  notices: never;
}

/** The type name of a workflow, as the worker exports it. */
export type WorkflowName = Extract<keyof UpdatesOf, keyof typeof workflows>;

/** The name of an update that a workflow takes. */
export type UpdateName<W extends WorkflowName> = UpdatesOf[W]['name'];

type UpdateOf<W extends WorkflowName, N> = Extract<UpdatesOf[W], { name: N }>;

/** The input of an update. */
export type InputOf<W extends WorkflowName, N> =
  UpdateOf<W, N> extends UpdateDefinition<unknown, [infer Input], string> ? Input : never;

/** The result of an update. */
export type ResultOf<W extends WorkflowName, N> =
  UpdateOf<W, N> extends UpdateDefinition<infer Result, [infer _], string> ? Result : never;

/** The start of a workflow: its type and id, and the organization it belongs to. */
export interface Start<W extends string = string> {
  workflow: W;
  workflow_id: string;
  org_id: string;
}

interface Kind {
  task_queue: TaskQueue;
  /** The line that operators read in the Temporal page. */
  summary: (db: Db, start: Start) => Promise<string>;
  /** False if the row is closed, so that a start that has waited its turn need not be sent. */
  is_wanted: (db: Db, start: Start) => Promise<boolean>;
}

// How each kind of workflow is started.
const kinds: Record<WorkflowName, Kind> = {
  reservationLifetimes: {
    task_queue: 'lifecycle',
    summary: async (db, { org_id }) =>
      `Holds of organization ${(await organizations.get(db, org_id)).name}: expires each at its deadline`,
    is_wanted: async () => true,
  },
  costTicket: {
    task_queue: 'lifecycle',
    summary: (db, { workflow_id }) => tickets.summary(db, workflow_id),
    is_wanted: (db, { workflow_id }) => tickets.isOpen(db, workflow_id),
  },
  paymentSession: {
    task_queue: 'payments',
    summary: (db, { workflow_id }) => payments.summary(db, workflow_id),
    is_wanted: (db, { workflow_id }) => payments.isUnfinished(db, workflow_id),
  },
  paymentRefund: {
    task_queue: 'payments',
    summary: (db, { workflow_id }) => refunds.summary(db, workflow_id),
    is_wanted: (db, { workflow_id }) => refunds.isPending(db, workflow_id),
  },
  exportJob: {
    task_queue: 'export',
    summary: (db, { workflow_id }) => exports.summary(db, workflow_id),
    is_wanted: (db, { workflow_id }) => exports.isUnfinished(db, workflow_id),
  },
  configRollout: {
    task_queue: 'config',
    summary: (db, { workflow_id }) => rollouts.summary(db, workflow_id),
    is_wanted: (db, { workflow_id }) => rollouts.isUnfinished(db, workflow_id),
  },
  notices: {
    task_queue: 'notices',
    summary: (db, { workflow_id }) => notices.summary(db, workflow_id),
    is_wanted: async () => true,
  },
};

// Temporal takes 200 bytes.
const SUMMARY_LENGTH_MAX = 190;

/** The search attributes that operators filter by, each a keyword. */
export const attribute_names = ['OrgId', 'Kind', 'Status'] as const;

const OrgId = defineSearchAttributeKey('OrgId', 'KEYWORD');
const Kind = defineSearchAttributeKey('Kind', 'KEYWORD');
const Status = defineSearchAttributeKey('Status', 'KEYWORD');

/** False if the workflow would find nothing to do. */
export function isWanted(db: Db, start: Start): Promise<boolean> {
  return kindOf(start).is_wanted(db, start);
}

/** Id, queue, summary and search attributes of a workflow's start. */
export async function startOptions(db: Db, start: Start) {
  const { task_queue, summary } = kindOf(start);
  return {
    workflowId: start.workflow_id,
    taskQueue: task_queue,
    staticSummary: cut(await summary(db, start), SUMMARY_LENGTH_MAX),
    typedSearchAttributes: new TypedSearchAttributes([
      { key: OrgId, value: start.org_id },
      { key: Kind, value: start.workflow },
      { key: Status, value: 'running' },
    ]),
  };
}

function kindOf({ workflow }: Start): Kind {
  const kind = (kinds as Partial<Record<string, Kind>>)[workflow];
  if (kind === undefined) throw new Error(`No way to start ${workflow} is known.`);
  return kind;
}
