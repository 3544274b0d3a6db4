import { AppError } from '../domain/errors';
import * as destinations from '../domain/exports/destinations';
import { ownerFolder } from '../domain/exports/manifest';
import type { Place } from '../domain/exports/steps';
import type { Secrets } from '../domain/secrets';
import type { Db } from '../domain/sql';
import { openFolder } from './folder';
import type { ExportTarget } from './target';

/** Finds where the files of an export go, or are. */
export type TargetOf = (
  place: Pick<Place, 'target' | 'org_id' | 'destination_id'>,
) => Promise<ExportTarget>;

interface Means {
  /** EXPORT_DIR. */
  dir: string | undefined;
  /** EXPORT_S3_ORIGINS. */
  origins: readonly string[];
  secrets: Secrets;
}

/** Targets of exports, each opened as it is needed, with the credentials of that moment. */
export function createTargetOf(db: Db, { dir, origins, secrets }: Means): TargetOf {
  const folder = openFolder({ db, dir });
  return async ({ org_id, target, destination_id }) => {
    if (target === 'folder') return folder;
    if (destination_id === null) throw new AppError('not_found', 'This export has no destination.');
    const destination = await destinations.open(db, secrets, destination_id);
    // Loaded when it is needed: it takes as much memory as all else of the process.
    const { openStore } = await import('./s3.ts');
    return openStore({ destination, origins, probe_folder: ownerFolder(org_id) });
  };
}

/** Runs an action on a target, whose connections it gives back. */
export async function atTarget<T>(
  target: ExportTarget,
  run: (target: ExportTarget) => Promise<T>,
): Promise<T> {
  try {
    return await run(target);
  } finally {
    target.close();
  }
}
