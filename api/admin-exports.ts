import { setTimeout as sleep } from 'node:timers/promises';
import * as exports from '../domain/exports/exports';
import type { Db } from '../domain/sql';

const LISTED_MAX = 20;
const LOOK_MS = 1_000;
const BAR_WIDTH = 20;

/** `exports`: the newest exports, a line each. `exports <id>`: one of them until it has ended. */
export async function runExports(
  db: Db,
  [id]: string[],
  print: (text: string) => void,
): Promise<number> {
  if (id !== undefined) return follow(db, id, print);
  const newest = { sort: '-created_at', page: 1, per_page: LISTED_MAX };
  const { rows } = await exports.list(db, { org_id: undefined }, newest);
  for (const row of rows) print(lineOf(row));
  if (rows.length === 0) print('No export was asked for.');
  return 0;
}

/** 0 if it was completed. */
async function follow(db: Db, id: string, print: (text: string) => void): Promise<number> {
  for (let shown = ''; ; ) {
    const row = await exports.get(db, id, undefined);
    const line = lineOf(row);
    if (line !== shown) print(line);
    shown = line;
    if (!exports.isUnderWay(row)) return row.status === 'completed' ? 0 : 1;
    await sleep(LOOK_MS);
  }
}

function lineOf(row: exports.Export): string {
  const { id, org_id, kinds, status, rows, parts_done, parts_total, error_message } = row;
  const period = `${momentOf(row.from)} to ${momentOf(row.to)}`;
  const why = error_message === null ? '' : `: ${error_message}`;
  return (
    `${id}  ${barOf(parts_done, parts_total)} ${parts_done} of ${parts_total} parts, ${rows} rows  ` +
    `${status}  ${kinds.join(', ')} of ${org_id ?? 'all'}, ${period}${why}`
  );
}

/** `2026-11-01`, or `2026-11-01T08:30:00Z` if it is not the beginning of a UTC day. */
function momentOf(time: Date): string {
  return time.toISOString().replace(/T00:00:00\.000Z$|\.\d+(?=Z$)/, '');
}

/** `[#####---------------]` */
export function barOf(done: number, total: number): string {
  const full = total === 0 ? 0 : Math.floor((done / total) * BAR_WIDTH);
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_WIDTH - full)}]`;
}
