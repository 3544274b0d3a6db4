import { ApplicationFailure, defineSearchAttributeKey } from '@temporalio/common';
import {
  ActivityFailure,
  CancellationScope,
  continueAsNew,
  defineSignal,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { ExportStatus } from '../domain/exports/exports';

interface ExportRef {
  export_id: string;
}

/** Somebody canceled the export: its row says so already. */
export const canceled = defineSignal('canceled');

const quick = {
  startToCloseTimeout: '1 minute',
  retry: { maximumInterval: '30 seconds' },
} as const;
const { beginExport } = proxyActivities<Activities>({
  ...quick,
  summary: 'Find the files that are yet to be written',
});
const { failExport } = proxyActivities<Activities>({
  ...quick,
  summary: 'Say why it failed; let the next export begin',
});
const { clearExport } = proxyActivities<Activities>({
  startToCloseTimeout: '5 minutes',
  heartbeatTimeout: '30 seconds',
  retry: { maximumAttempts: 5 },
  summary: 'Delete what was written',
});
// A file takes as long as it takes; a worker that is silent has died, and another one writes the
// file anew, however often. An error that stays ends the export: the step says so.
const { writeExportPart, finishExport } = proxyActivities<Activities>({
  startToCloseTimeout: '6 hours',
  heartbeatTimeout: '10 seconds',
  retry: { maximumInterval: '10 seconds' },
  cancellationType: 'WAIT_CANCELLATION_COMPLETED',
});

const Status = defineSearchAttributeKey('Status', 'KEYWORD');

/**
 * One export: writes the file of each kind and day, then the manifest, and ends it. If it is
 * canceled or fails, what was written is deleted.
 */
export async function exportJob(ref: ExportRef): Promise<ExportStatus> {
  const writing = new CancellationScope({ cancellable: true });
  setHandler(canceled, () => writing.cancel());
  let status: ExportStatus;
  try {
    status = await writing.run(() => write(ref));
  } catch (error) {
    if (!isCancellation(error) && !(error instanceof ActivityFailure)) throw error;
    status = await CancellationScope.nonCancellable(() => end(ref, error));
  }
  upsertSearchAttributes([{ key: Status, value: status }]);
  return status;
}

async function write(ref: ExportRef): Promise<ExportStatus> {
  const { parts, summary } = await beginExport(ref);
  setCurrentDetails(summary);
  for (const n of parts) {
    setCurrentDetails((await writeExportPart({ ...ref, n })).summary);
    // Which files are left is in the rows, so a new run goes on behind them.
    if (workflowInfo().continueAsNewSuggested) await continueAsNew<typeof exportJob>(ref);
  }
  const finished = await finishExport(ref);
  setCurrentDetails(finished.summary);
  // Canceled or failed since: nothing was finished.
  if (finished.status === 'canceled' || finished.status === 'failed') await clearExport(ref);
  return finished.status;
}

/** The end of an export that is not completed. */
async function end(ref: ExportRef, error: unknown): Promise<ExportStatus> {
  const failed = await failExport({ ...ref, ...reasonOf(error) });
  setCurrentDetails(failed.summary);
  if (failed.status !== 'completed') await clearExport(ref);
  return failed.status;
}

/** Why it ends; if its row says that it was canceled, that stays. */
function reasonOf(error: unknown): { code: string; message: string } {
  if (isCancellation(error))
    return { code: 'request_canceled', message: 'This export was canceled in Temporal.' };
  const { cause } = error as ActivityFailure;
  const code = cause instanceof ApplicationFailure ? cause.type : undefined;
  return { code: code ?? 'internal_error', message: cause?.message ?? '' };
}
