import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType } from '@temporalio/common';
import type { Program } from '../processes/processes';
import { findTemporal } from './temporal-program';

export const NAMESPACE = 'svc';

const RETENTION_SECONDS = 7 * 24 * 3_600;
const ATTRIBUTES = ['OrgId', 'Kind', 'Status'] as const;
// temporal.api.enums.v1.IndexedValueType.
const KEYWORD = 2;
// temporal.api.enums.v1.TaskQueueType.
const WORKFLOW_QUEUE = 1;
const NOT_FOUND = 5;
const ALREADY_EXISTS = 6;
const BOOTSTRAP_MS = 60_000;

/** The development server as a program; without a folder it keeps nothing. */
export async function prepareTemporal(options: {
  folder?: string;
  port: number;
  ui_port: number;
}): Promise<Program> {
  const { folder, port, ui_port } = options;
  const { command, server_version } = await findTemporal();
  if (folder) await mkdir(folder, { recursive: true });
  const address = `127.0.0.1:${port}`;
  const store = folder
    ? // A file belongs to the version that made it. Another version starts a fresh one, and the
      // rows bring the workflows back.
      ['--db-filename', path.join(folder, `temporal-${server_version}.sqlite`)]
    : [];
  const pragmas = folder ? ['journal_mode=wal', 'synchronous=1'] : [];
  return {
    name: 'temporal',
    command,
    args: [
      'server',
      'start-dev',
      '--ip',
      '127.0.0.1',
      '--port',
      String(port),
      '--ui-port',
      String(ui_port),
      '--ui-disable-news-fetch',
      '--namespace',
      NAMESPACE,
      '--log-level',
      'error',
      ...store,
      ...pragmas.flatMap((pragma) => ['--sqlite-pragma', pragma]),
      ...ATTRIBUTES.flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
    ],
    env: { ...process.env, DO_NOT_TRACK: '1' },
    cwd: folder ?? '/',
    stop_signals: ['SIGTERM', 'SIGKILL'],
    isReady: async () => {
      await prepareNamespace(address, { namespace: NAMESPACE, own: true });
      return true;
    },
    ready_timeout_ms: BOOTSTRAP_MS,
  };
}

/** Waits for a server that somebody else runs, and makes the missing parts in it. */
export async function useTemporal(address: string, namespace = NAMESPACE): Promise<void> {
  const deadline = performance.now() + BOOTSTRAP_MS;
  for (;;) {
    try {
      return await prepareNamespace(address, { namespace, own: false });
    } catch (error) {
      if (performance.now() > deadline) {
        throw new Error(`TEMPORAL_ADDRESS ${address} cannot be used: ${(error as Error).message}`, {
          cause: error,
        });
      }
      await sleep(500);
    }
  }
}

/** The workers that poll a queue for workflow tasks, each with the moment of its last request. */
export async function pollersOf(address: string, name: string): Promise<string[]> {
  const connection = await Connection.connect({ address, connectTimeout: '2s' });
  try {
    const { pollers } = await connection.workflowService.describeTaskQueue({
      namespace: NAMESPACE,
      taskQueue: { name },
      taskQueueType: WORKFLOW_QUEUE,
    });
    return (pollers ?? []).map(({ identity, lastAccessTime: at }) =>
      [identity, at?.seconds, at?.nanos].join(' '),
    );
  } finally {
    await connection.close();
  }
}

interface Wanted {
  namespace: string;
  /** Ours to set the retention of. */
  own: boolean;
}

/**
 * Sees to the namespace, its retention and its search attributes, and proves them by a start. A
 * server knows new attributes some moments after it took them, so callers repeat until this
 * returns.
 */
async function prepareNamespace(address: string, wanted: Wanted): Promise<void> {
  const connection = await Connection.connect({ address, connectTimeout: '2s' });
  try {
    await registerNamespace(connection, wanted);
    await registerAttributes(connection, wanted);
    await probe(connection, wanted);
  } finally {
    await connection.close();
  }
}

async function registerNamespace(
  { workflowService }: Connection,
  { namespace, own }: Wanted,
): Promise<void> {
  const workflowExecutionRetentionTtl = { seconds: RETENTION_SECONDS as unknown as never };
  const known = await workflowService.describeNamespace({ namespace }).catch(unless(NOT_FOUND));
  if (!known) {
    await workflowService
      .registerNamespace({
        namespace,
        workflowExecutionRetentionPeriod: workflowExecutionRetentionTtl,
      })
      .catch(unless(ALREADY_EXISTS));
    return;
  }
  // The retention of somebody else's namespace is their decision.
  const retention_s = Number(known.config?.workflowExecutionRetentionTtl?.seconds ?? 0);
  if (!own || retention_s === RETENTION_SECONDS) return;
  await workflowService.updateNamespace({
    namespace,
    config: { workflowExecutionRetentionTtl },
  });
}

async function registerAttributes(
  { operatorService }: Connection,
  { namespace }: Wanted,
): Promise<void> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const missing = ATTRIBUTES.filter((name) => !(name in (customAttributes ?? {})));
  if (missing.length === 0) return;
  const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]));
  await operatorService
    .addSearchAttributes({ namespace, searchAttributes })
    .catch(unless(ALREADY_EXISTS));
}

async function probe(connection: Connection, { namespace }: Wanted): Promise<void> {
  const client = new Client({ connection, namespace });
  const handle = await client.workflow.start('bootstrapProbe', {
    taskQueue: 'bootstrap-probe',
    workflowId: 'bootstrap-probe',
    workflowIdConflictPolicy: 'USE_EXISTING',
    workflowExecutionTimeout: '1 minute',
    typedSearchAttributes: ATTRIBUTES.map((name) => ({
      key: defineSearchAttributeKey(name, SearchAttributeType.KEYWORD),
      value: 'probe',
    })),
  });
  await handle.terminate('This start only showed that the server takes starts.');
  await connection.workflowService.deleteWorkflowExecution({
    namespace,
    workflowExecution: { workflowId: handle.workflowId },
  });
}

function unless(code: number): (error: { code?: number }) => undefined {
  return (error) => {
    if (error.code !== code) throw error;
  };
}
