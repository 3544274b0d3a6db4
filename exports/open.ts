import type { Place } from '../domain/exports/steps';
import type { Db } from '../domain/sql';
import { openFolder } from './folder';
import type { ExportTarget } from './target';

/** The target of an export's files. */
export type TargetOf = (place: Pick<Place, 'target' | 'org_id'>) => Promise<ExportTarget>;

/** Targets of exports, each found as it is needed. */
export function createTargetOf(db: Db, { dir }: { dir: string | undefined }): TargetOf {
  const folder = openFolder({ db, dir });
  return async () => folder;
}
