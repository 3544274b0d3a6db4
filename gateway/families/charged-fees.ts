import type { Usage } from '../../domain/ledger/calls';
import { type Demand, nothing_asked, PICTURE_TOKENS, RUNS_MAX } from './demand';
import { nothing_seen, type Run, type Seen } from './fees';

// More than any picture takes, read or made: what is told above it is not charged.
const PICTURE_TOKENS_MOST = 3 * PICTURE_TOKENS;

/**
 * A usage with the fees of its answer. The tier and the region that were asked for stand for those
 * that the answer does not name; of an answer that nobody could read, all that was held for counts.
 */
export function withFees(
  usage: Usage,
  { seen, is_unread }: { seen: Seen; is_unread: boolean },
  demand: Demand,
): Usage {
  if (seen === nothing_seen && demand === nothing_asked) return usage;
  const { units } = demand;
  const untold = is_unread ? units : demand.untold;
  const service_tier = seen.service_tier ?? demand.service_tier;
  const region = seen.region ?? demand.region;
  const runs = [...seen.runs.values()].slice(0, RUNS_MAX);
  const count = (kind: Run) => runs.filter((run) => run === kind).length;
  const made = count('picture');
  const counted_pictures = made * PICTURE_TOKENS || untold.image_output_tokens;
  const most = Math.max(1, made) * PICTURE_TOKENS_MOST;
  const pictures = Math.min(seen.picture_output_tokens ?? counted_pictures ?? 0, most);
  const looked_at = Math.min(seen.picture_input_tokens, most);
  const { web_searches, file_searches, code_runs } = seen;
  const searches = web_searches ?? (count('web_search') || untold.web_searches);
  const in_files = file_searches ?? (count('file_search') || untold.file_searches);
  const containers = containersOf(runs, demand) || untold.containers;
  const billed: Usage = { ...usage };
  add(billed, 'prompt_tokens', looked_at);
  add(billed, 'completion_tokens', pictures);
  add(billed, 'image_input_tokens', looked_at);
  add(billed, 'image_output_tokens', pictures);
  add(billed, 'web_searches', Math.min(searches ?? 0, demand.searches_max ?? RUNS_MAX));
  add(billed, 'file_searches', Math.min(in_files ?? 0, RUNS_MAX));
  // A container that a search brings with it is free.
  if (units.containers) {
    const told = code_runs === undefined ? containers : Math.min(code_runs, RUNS_MAX);
    add(billed, 'containers', told);
  }
  if (service_tier !== undefined) billed.service_tier = service_tier;
  if (region !== undefined) billed.region = region;
  return billed;
}

/** The containers that code ran in, in those of the smallest size. */
function containersOf(runs: readonly Run[], { container_sizes = {} }: Demand): number {
  const sizes = new Map<string, number>();
  let unnamed = 0;
  for (const run of runs) {
    if (typeof run !== 'object') continue;
    const { container, by } = run;
    const { [by]: size = 1 } = container_sizes;
    if (container === '') unnamed += size;
    else sizes.set(container, Math.max(size, sizes.get(container) ?? 0));
  }
  // One that is not named is one of those that are.
  return [...sizes.values()].reduce((a, b) => a + b, 0) || unnamed;
}

type Count = Exclude<keyof Usage, 'service_tier' | 'region'>;

/** A count of nothing is left out. */
function add(usage: Usage, name: Count, count = 0): void {
  if (count > 0) usage[name] = (usage[name] ?? 0) + count;
}
