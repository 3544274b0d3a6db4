/** One place where two configurations differ; a member that is absent stands in only one. */
export interface Change {
  /** `providers.targets[0].weight` */
  path: string;
  before?: unknown;
  after?: unknown;
}

const CHANGES_MAX = 200;
/** Of a value as JSON; a longer one is shown as its size. */
const VALUE_CHARACTERS_MAX = 500;

/** Where two configurations differ: the first 200 places in the order of paths, and how many. */
export function changesBetween(
  before: unknown,
  after: unknown,
): { changes: Change[]; count: number } {
  const found: Change[] = [];
  compare({ path: '', before, after }, found);
  return { changes: found.slice(0, CHANGES_MAX).map(shortened), count: found.length };
}

function compare(pair: Required<Change>, found: Change[]): void {
  const { path, before, after } = pair;
  if (Array.isArray(before) && Array.isArray(after)) {
    for (let at = 0; at < Math.max(before.length, after.length); at += 1)
      compare({ path: `${path}[${at}]`, before: before[at], after: after[at] }, found);
  } else if (isRecord(before) && isRecord(after)) {
    for (const name of [...new Set([...Object.keys(before), ...Object.keys(after)])].sort())
      compare(
        { path: path === '' ? name : `${path}.${name}`, before: before[name], after: after[name] },
        found,
      );
  } else if (before !== after) {
    found.push({
      path,
      ...(before === undefined ? {} : { before }),
      ...(after === undefined ? {} : { after }),
    });
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function shortened(change: Change): Change {
  const short = (value: unknown) => {
    const text = JSON.stringify(value);
    return text.length > VALUE_CHARACTERS_MAX ? `(${text.length} characters)` : value;
  };
  const { path } = change;
  return {
    path,
    ...('before' in change ? { before: short(change.before) } : {}),
    ...('after' in change ? { after: short(change.after) } : {}),
  };
}
