import { writeFile as writeText } from 'node:fs/promises';
import { AppError, isAppError, isErrorCode } from '../domain/errors';
import * as exports from '../domain/exports/exports';
import { columnsOf } from '../domain/exports/kinds';
import { fileName, folderOf, manifestText } from '../domain/exports/manifest';
import { type Part, pagesOf } from '../domain/exports/parts';
import * as schedules from '../domain/exports/schedules';
import * as steps from '../domain/exports/steps';
import { type Db, withRetry } from '../domain/sql';
import { copyText } from '../exports/copy-text';
import { atTarget, type TargetOf } from '../exports/open';
import { paced } from '../exports/pace';
import type { ExportTarget } from '../exports/target';
import { digestOf, writePart } from '../exports/write';

interface Ref {
  export_id: string;
}

/** How an export stands, and the line that operators read. */
export interface ExportProgress {
  status: exports.ExportStatus;
  summary: string;
}

/** What a step hears from whoever runs it. */
export interface Life {
  /** Distinct for each try of a step: two of them never write one draft. */
  attempt: string;
  /** Throws once the step is to stop. */
  requireLife: () => void;
  /** Aborted then. */
  signal: AbortSignal;
}

/** Each note is a commit, which takes as long as some pages. */
const NOTE_MS = 500;
/** What one store has not deleted of a page by then is left for another hour. */
const STORE_MS = 60_000;

/** What an operator ends: no room, no right to write, a disk or a share that fails. */
const disk_errors = {
  full: ['ENOSPC', 'EDQUOT'],
  failed: ['EROFS', 'EACCES', 'EPERM', 'EIO', 'ESTALE'],
};

/**
 * The steps of exports. Each can be run again at any time: a file that is written stays so.
 * `bytes_max` is what the folder keeps of one organization.
 */
export function createExportSteps(
  db: Db,
  targetOf: TargetOf,
  { bytes_max }: { bytes_max?: number | undefined } = {},
) {
  return {
    /** The numbers of the files that are yet to be written. */
    async beginExport({ export_id }: Ref) {
      const parts = await steps.unwritten(db, export_id);
      return { parts, ...(await progressOf(db, export_id)) };
    },

    /** Writes a file, unless it is written or its export has ended. */
    async writeExportPart({ export_id, n }: Ref & { n: number }, life: Life) {
      const part = await steps.partOf(db, export_id, n);
      if (part !== undefined)
        await withTrouble(db, export_id, () => writeFile(db, targetOf, part, life));
      return progressOf(db, export_id);
    },

    /** Writes the manifest, and with it ends the export. */
    async finishExport({ export_id }: Ref, life: Life): Promise<ExportProgress> {
      const { status } = await steps.placeOf(db, export_id);
      if (status === 'running') {
        await withTrouble(db, export_id, async () => {
          await writeManifest(db, targetOf, export_id, life);
          await tidy(db, targetOf, export_id, life.signal);
        });
        await withRetry(() => steps.complete(db, export_id));
      }
      return progressOf(db, export_id);
    },

    /** Records that an export failed, and why, unless it has ended already. */
    async failExport({ export_id, code, message }: Ref & { code: string; message: string }) {
      // What is no error of ours is a bug, and none of its words are shown.
      const reason = isErrorCode(code)
        ? { code, message }
        : { code: 'internal_error' as const, message: 'Something unexpected went wrong.' };
      await withRetry(() => steps.fail(db, export_id, reason));
      return progressOf(db, export_id);
    },

    /** Deletes the files of an export that has ended without being completed. */
    async clearExport({ export_id }: Ref, { signal }: Pick<Life, 'signal'>): Promise<void> {
      await clear(db, targetOf, await steps.placeOf(db, export_id), signal);
    },

    /**
     * Deletes the files of exports past their time; how many exports were tried, and which of them
     * failed. All stores are asked at once, so that one that is slow keeps the files of no other.
     */
    async expireExports({ limit }: { limit: number }, { signal }: Pick<Life, 'signal'>) {
      const due = await steps.toClear(db, limit);
      const of_store = new Map<string | null, steps.Place[]>();
      for (const place of due) {
        const { destination_id } = place;
        of_store.set(destination_id, [...(of_store.get(destination_id) ?? []), place]);
      }
      const failed: string[] = [];
      const clearStore = async (places: steps.Place[]) => {
        const either = AbortSignal.any([signal, AbortSignal.timeout(STORE_MS)]);
        for (const place of places)
          await clear(db, targetOf, place, either).catch((error) =>
            failed.push(`${place.export_id}: ${error}`),
          );
      };
      await Promise.all([...of_store.values()].map(clearStore));
      signal.throwIfAborted();
      return { tried: due.length, failed };
    },

    /** How many exports of schedules were made, and which schedules failed. */
    runExportSchedules: ({ limit }: { limit: number }) => schedules.run(db, limit, bytes_max),

    /** How many exports that nobody works on were given their workflow again. */
    adoptOrphanExports: ({ limit }: { limit: number }) => steps.adoptOrphans(db, limit),
  };
}

async function progressOf(db: Db, export_id: string): Promise<ExportProgress> {
  const { status } = await exports.get(db, export_id, undefined);
  return { status, summary: await exports.summary(db, export_id) };
}

/** Runs a step, and says on its export what it met if it is to be tried again. */
async function withTrouble(db: Db, export_id: string, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (isAppError(error) && error.status > 500) await steps.trouble(db, export_id, error);
    throw error;
  }
}

async function writeFile(db: Db, targetOf: TargetOf, part: Part, life: Life): Promise<void> {
  const { export_id, n, kind } = part;
  const place = await steps.placeOf(db, export_id);
  const name = `${folderOf({ ...part, id: export_id })}/${fileName(part, place.format)}`;
  let noted_at = Number.NEGATIVE_INFINITY;
  const onPage = async (rows: number) => {
    life.requireLife();
    if (performance.now() - noted_at < NOTE_MS) return;
    noted_at = performance.now();
    if (!(await steps.progress(db, { export_id, n, rows }))) throw new Stopped();
  };
  const is_recorded = await published(await targetOf(place), { name, ...life }, async (file) => {
    const { format } = place;
    const pages = pagesOf(db, part, paced(copyText, life.signal));
    const made = await writePart({ file, format, columns: columnsOf(kind), pages, onPage });
    return { ...made, record: () => steps.written(db, part, made) };
  });
  if (!is_recorded) await clearLate(db, targetOf, export_id);
}

async function writeManifest(
  db: Db,
  targetOf: TargetOf,
  export_id: string,
  life: Life,
): Promise<void> {
  const left = await steps.unwritten(db, export_id);
  if (left.length > 0) throw new Error(`${left.length} files of ${export_id} are not written.`);
  const made = await exports.get(db, export_id, undefined);
  const text = manifestText(made, await exports.filesOf(db, export_id));
  const name = `${folderOf(made)}/${fileName({ kind: 'manifest', day: null }, made.format)}`;
  const target = await targetOf(await steps.placeOf(db, export_id));
  const is_recorded = await published(target, { name, ...life }, async (file) => {
    await writeText(file, text);
    const written = { rows: 0, first_id: null, last_id: null, sums: [], ...(await digestOf(file)) };
    return { ...written, record: () => steps.written(db, { export_id, n: 0 }, written) };
  });
  if (!is_recorded) await clearLate(db, targetOf, export_id);
}

/** What was written to a draft; `record` notes it once it has its name, unless it is too late. */
type Drafted = Pick<steps.Written, 'sha256'> & { record: () => Promise<boolean> };

/**
 * Writes a draft, gives it its name and records it; a draft that is not published is deleted. False
 * if the export has ended meanwhile.
 */
function published(
  target: ExportTarget,
  { name, attempt, signal }: Life & { name: string },
  write: (draft: string) => Promise<Drafted>,
): Promise<boolean> {
  return atTarget(target, async () => {
    let draft: string | undefined;
    try {
      draft = await target.draft(name, attempt);
      const { sha256, record } = await write(draft);
      if (sha256 !== null) await target.publish(draft, name, sha256, signal);
      return await record();
    } catch (error) {
      if (!(error instanceof Stopped)) throw known(error);
      return false;
    } finally {
      if (draft !== undefined) await target.discard(draft);
    }
  });
}

async function tidy(
  db: Db,
  targetOf: TargetOf,
  export_id: string,
  signal: AbortSignal,
): Promise<void> {
  const place = await steps.placeOf(db, export_id);
  const folder = folderOf({ ...place, id: export_id });
  await atTarget(await targetOf(place), (target) => target.tidy(folder, signal));
}

async function clear(
  db: Db,
  targetOf: TargetOf,
  place: steps.Place,
  signal: AbortSignal,
): Promise<void> {
  if (!['failed', 'canceled', 'expired'].includes(place.status)) return;
  const folder = folderOf({ ...place, id: place.export_id });
  await atTarget(await targetOf(place), (target) => target.clear(folder, signal));
  await steps.cleared(db, place.export_id);
}

/**
 * Deletes what a late try has written after the files of its export were deleted; nothing of one
 * that another try has completed.
 */
async function clearLate(db: Db, targetOf: TargetOf, export_id: string): Promise<void> {
  const place = await steps.placeOf(db, export_id);
  await clear(db, targetOf, place, AbortSignal.timeout(STORE_MS));
}

/** The export ended while a file of it was written. */
class Stopped extends Error {}

/** What is wrong with the worker's disk in words; another error as it is. */
function known(error: unknown): unknown {
  const { code = '' } = error as { code?: string };
  if (disk_errors.full.includes(code))
    return new AppError(
      'export_target_full',
      `The disk of worker_export is full (${code}): there is no room for the files of this export. ` +
        'Make some; if the export has ended by then, ask for it again.',
    );
  if (disk_errors.failed.includes(code))
    return new AppError(
      'export_target_failed',
      `worker_export cannot write files on its disk (${code}). Let it; if the export has ended by ` +
        'then, ask for it again.',
    );
  return error;
}
