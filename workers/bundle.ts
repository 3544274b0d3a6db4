import { join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';

/** The workflows as one script for Temporal's sandbox: made once a process, or once for all tests. */
export async function bundleWorkflows(): Promise<string> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(__dirname, '../workflows/index.ts'),
    workflowInterceptorModules: [join(__dirname, '../workflows/tracing.ts')],
    logger: new DefaultLogger('ERROR'),
  });
  return code;
}
