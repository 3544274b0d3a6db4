import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import type { Db } from '../domain/sql';
import { grpcCode, type TemporalAddress } from './connection';
import { bringSchedules } from './schedules';
import { attribute_names } from './starts';

const RETENTION_SECONDS = 7 * 24 * 3_600;
// temporal.api.enums.v1.IndexedValueType.
const KEYWORD = 2;
// gRPC.
const NOT_FOUND = 5;
const ALREADY_EXISTS = 6;
// PERMISSION_DENIED and UNIMPLEMENTED: a hosted Temporal keeps namespaces to its own pages.
const CLOSED = [7, 12];

interface Wanted {
  namespace: string;
  /** True if its retention is ours to set. */
  own: boolean;
}

const PATIENCE_MS = 60_000;

/**
 * Makes what this product needs in a Temporal: the namespace with its search attributes, and the
 * schedules as this program defines them. What is there already stays; it may be run at any time.
 * Returns how many workflows of unfinished rows are asked for again, because the store was new.
 */
export async function prepare(to: TemporalAddress, namespace: string, db: Db): Promise<number> {
  await waitForNamespace(to, { namespace, own: false });
  const connection = await Connection.connect({ ...to, connectTimeout: '2s' });
  try {
    return await bringSchedules(new Client({ connection, namespace }), db);
  } finally {
    await connection.close();
  }
}

/**
 * Makes the namespace (kept 7 days) and its search attributes, and proves them by a start. Tries
 * again for a minute, as a server may be on its way up, and knows new attributes some moments after
 * it took them; then throws the last error.
 */
export async function waitForNamespace(to: TemporalAddress, wanted: Wanted): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    try {
      return await prepareNamespace(to, wanted);
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await sleep(500);
    }
  }
}

/** Makes the namespace and its search attributes in one try, and proves that they serve. */
export async function prepareNamespace(to: TemporalAddress, wanted: Wanted): Promise<void> {
  const connection = await Connection.connect({ ...to, connectTimeout: '2s' });
  try {
    await makeNamespace(connection, wanted);
    await makeAttributes(connection, wanted);
    await probe(new Client({ connection, namespace: wanted.namespace }));
  } finally {
    await connection.close();
  }
}

/**
 * What a Temporal lacks for this product, as a line each; none if all is there, or if this process
 * may not look. Throws if Temporal cannot be asked.
 */
export async function missingParts({ connection, options }: Client): Promise<string[]> {
  const { namespace } = options;
  const { workflowService, operatorService } = connection;
  const known = await workflowService
    .describeNamespace({ namespace })
    .catch(unless(NOT_FOUND, ...CLOSED));
  if (known === NOT_FOUND) return [`the namespace ${namespace}`];
  const listed = await operatorService
    .listSearchAttributes({ namespace })
    .catch(unless(NOT_FOUND, ...CLOSED));
  if (typeof listed === 'number') return [];
  return attribute_names
    .filter((name) => !(name in (listed.customAttributes ?? {})))
    .map((name) => `the search attribute ${name} (Keyword) of the namespace ${namespace}`);
}

async function makeNamespace(
  { workflowService }: Connection,
  { namespace, own }: Wanted,
): Promise<void> {
  const workflowExecutionRetentionTtl = { seconds: RETENTION_SECONDS as unknown as never };
  const known = await workflowService
    .describeNamespace({ namespace })
    .catch(unless(NOT_FOUND, ...CLOSED));
  if (known === NOT_FOUND) {
    await workflowService
      .registerNamespace({
        namespace,
        workflowExecutionRetentionPeriod: workflowExecutionRetentionTtl,
      })
      .catch(unless(ALREADY_EXISTS));
    return;
  }
  // The retention of somebody else's namespace is their decision.
  if (typeof known === 'number' || !own) return;
  const retention_s = Number(known.config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  if (retention_s === RETENTION_SECONDS) return;
  await workflowService.updateNamespace({
    namespace,
    config: { workflowExecutionRetentionTtl },
  });
}

async function makeAttributes(
  { operatorService }: Connection,
  { namespace }: Wanted,
): Promise<void> {
  const listed = await operatorService.listSearchAttributes({ namespace }).catch(unless(...CLOSED));
  if (typeof listed === 'number') return;
  const missing = attribute_names.filter((name) => !(name in (listed.customAttributes ?? {})));
  if (missing.length === 0) return;
  const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
  await operatorService
    .addSearchAttributes({ namespace, searchAttributes })
    .catch(unless(ALREADY_EXISTS));
}

async function probe({ connection, workflow, options: { namespace } }: Client): Promise<void> {
  const handle = await workflow.start('bootstrapProbe', {
    taskQueue: 'bootstrap-probe',
    workflowId: 'bootstrap-probe',
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowExecutionTimeout: '1 minute',
    typedSearchAttributes: attribute_names.map((name) => ({
      key: defineSearchAttributeKey(name, SearchAttributeType.KEYWORD),
      value: 'probe',
    })),
  });
  await handle.terminate('This start only showed that the server takes starts.');
  await connection.workflowService
    .deleteWorkflowExecution({ namespace, workflowExecution: { workflowId: handle.workflowId } })
    .catch(unless(...CLOSED));
}

/** An error of one of the codes becomes its code. */
function unless(...codes: number[]): (error: unknown) => number {
  return (error) => {
    const code = grpcCode(error) ?? -1;
    if (!codes.includes(code)) throw error;
    return code;
  };
}
