import path from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { root } from '../runtime/root';

/**
 * Writes the workflows as one script to its output. A process of its own: what makes the script
 * takes 150 MB, which a worker would not give back.
 */
export async function main(): Promise<void> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: path.join(root, 'workflows/index.ts'),
    workflowInterceptorModules: [path.join(root, 'workflows/tracing.ts')],
    logger: new DefaultLogger('ERROR'),
  });
  process.stdout.write(code);
}
