import path from 'node:path';
import { Connection } from '@temporalio/client';
import { childVariables } from '../../runtime/config';
import type { TemporalAddress } from '../../temporal/connection';
import { prepareNamespace, waitForNamespace } from '../../temporal/prepare';
import { attribute_names } from '../../temporal/starts';
import { privateFolder } from '../processes/data-directory';
import type { Program } from '../processes/processes';
import { findTemporal } from './temporal-program';

export const NAMESPACE = 'svc';

// temporal.api.enums.v1.TaskQueueType.
const WORKFLOW_QUEUE = 1;
const BOOTSTRAP_MS = 60_000;

/** The development server as a program; without a folder it keeps nothing. */
export async function prepareTemporal(options: {
  folder?: string;
  port: number;
  ui_port: number;
}): Promise<Program> {
  const { folder, port, ui_port } = options;
  const { command, server_version } = await findTemporal();
  if (folder) privateFolder(folder);
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
      ...attribute_names.flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
    ],
    env: { ...childVariables(), DO_NOT_TRACK: '1' },
    cwd: folder ?? '/',
    stop_signals: ['SIGTERM', 'SIGKILL'],
    isReady: async () => {
      await prepareNamespace({ address }, { namespace: NAMESPACE, own: true });
      return true;
    },
    ready_timeout_ms: BOOTSTRAP_MS,
  };
}

/** Waits for a server that somebody else runs, and makes the missing parts in it. */
export async function useTemporal(to: TemporalAddress, namespace = NAMESPACE): Promise<void> {
  await waitForNamespace(to, { namespace, own: false }).catch((error: Error) => {
    throw new Error(`TEMPORAL_ADDRESS ${to.address} cannot be used: ${error.message}`, {
      cause: error,
    });
  });
}

/** The workers that poll a queue for workflow tasks, each with the moment of its last request. */
export async function pollersOf(to: TemporalAddress, name: string): Promise<string[]> {
  const connection = await Connection.connect({ ...to, connectTimeout: '2s' });
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
