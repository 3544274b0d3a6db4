import { randomBytes } from 'node:crypto';
import { setPriority } from 'node:os';
import { createExportSteps } from '../../activities/exports';
import { createSecrets } from '../../domain/secrets';
import { createTargetOf } from '../../exports/open';
import { openDatabase } from '../../runtime/database';

/** Writes an export as its worker does; prints milliseconds and the most memory it had, in MB. */
export async function main(): Promise<void> {
  const { DATABASE_URL = '', EXPORT_DIR: dir, EXPORT_ID: export_id = '' } = process.env;
  // As workers/main.ts does.
  setPriority(5);
  const db = openDatabase(DATABASE_URL, 4, 'bench export');
  const secrets = createSecrets(randomBytes(32).toString('base64'));
  const steps = createExportSteps(db, createTargetOf(db, { dir, origins: [], secrets }));
  const life = {
    attempt: 'bench',
    requireLife: () => undefined,
    signal: new AbortController().signal,
  };
  const began = performance.now();
  const { parts } = await steps.beginExport({ export_id });
  for (const n of parts) await steps.writeExportPart({ export_id, n }, life);
  const { status } = await steps.finishExport({ export_id }, life);
  const ms = performance.now() - began;
  await db.destroy();
  const memory_mb = process.resourceUsage().maxRSS / 1_024;
  process.stdout.write(JSON.stringify({ status, ms, memory_mb }));
}
