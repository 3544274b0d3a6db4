import path from 'node:path';
import {
  bundleWorkflowCode,
  DefaultLogger,
  NativeConnection,
  Runtime,
  Worker,
} from '@temporalio/worker';
import { root } from '../../runtime/root';
import { NAMESPACE } from '../../sandbox/servers/temporal';

// A worker of the bare workflow, as a process of its own like the product's.
export async function main(): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const connection = await NativeConnection.connect({
    address: process.env.TEMPORAL_ADDRESS as string,
  });
  const { code } = await bundleWorkflowCode({
    workflowsPath: path.join(root, 'bench/processes/bare-workflow.ts'),
    logger: new DefaultLogger('ERROR'),
  });
  const taskQueue = 'bare';
  const worker = await Worker.create({
    connection,
    namespace: NAMESPACE,
    taskQueue,
    workflowBundle: { code },
    activities: { nothing: async () => undefined },
  });
  await worker.run();
  await connection.close();
}
