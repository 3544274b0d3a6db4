import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils';
import { Worker } from '@temporalio/worker';
import { root } from '../../runtime/root';
import { bundleWorkflows } from '../../workers/bundle';

const folder = path.join(root, 'test/histories');

export type HistoryJson = { events: Record<string, unknown>[] };

/** A stored history, as `temporal workflow show --output json` writes it. */
export async function storedHistory(name: string): Promise<HistoryJson> {
  return JSON.parse(await readFile(path.join(folder, `${name}.json`), 'utf8'));
}

/**
 * Replays a history against today's workflows; the error of a violation, or undefined if it still
 * fits.
 */
export async function replay(
  history: HistoryJson,
  workflow_id: string,
): Promise<Error | undefined> {
  const code = await bundleWorkflows();
  const results = Worker.runReplayHistories({ workflowBundle: { code } }, [
    { workflowId: workflow_id, history: historyFromJSON(history) },
  ]);
  for await (const result of results) return result.error;
  throw new Error('The replay gave no result.');
}
