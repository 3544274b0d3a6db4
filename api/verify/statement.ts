import { setTimeout as sleep } from 'node:timers/promises';
import { ask, Fault, NotChecked, read } from './client';
import type { Deployment } from './deployment';

const HOUR_MS = 3_600_000;
// What the clocks of this terminal and of the database may differ by.
const SKEW_MS = 2_000;
const EXPORT_MS = 20_000;
const LOOK_MS = 200;

interface Sum {
  currency: string | null;
  type: string;
  amount_nanos: string | null;
}

/**
 * The platform's closing statement of the last hour is written, and its manifest adds up: what
 * wallets had and what their entries came to is what they have. The export is deleted again: it
 * counts for the platform, not for an organization.
 */
export async function exportAStatement(
  { apis, platform_key: key }: Pick<Deployment, 'apis' | 'platform_key'>,
  within_ms = EXPORT_MS,
): Promise<string> {
  const url = `${apis[0]?.url}/v1/exports`;
  const to = Date.now() - SKEW_MS;
  const period = { from: new Date(to - HOUR_MS).toISOString(), to: new Date(to).toISOString() };
  const body = { kinds: ['statement'], ...period };
  const making = `${apis[0]?.url}/v1/admin/exports`;
  const asked = await ask('POST', making, { key, body });
  if (asked.body?.error?.code === 'exports_exceeded')
    throw new NotChecked(asked.body.error.message);
  if (asked.status !== 201)
    throw new Fault(`POST ${making} answers ${asked.status}: ${asked.body?.error?.message}`);
  const { id } = asked.body;
  const found = await lookAt(`${url}/${id}`, key, within_ms).catch((error: Error) => error);
  // Canceled if it waits or is written, deleted if it is there; one that has failed left nothing.
  const left = await ask('DELETE', `${url}/${id}`, { key });
  if (found instanceof Error) throw found;
  if (left.status !== 200)
    throw new Fault(`DELETE ${url}/${id} answers ${left.status}: ${left.body?.error?.message}`);
  return `the statement ${id} of the last hour is written and adds up`;
}

/** Waits for a statement and adds it up. */
async function lookAt(url: string, key: string, within_ms: number): Promise<void> {
  await untilCompleted(url, key, within_ms);
  const { files } = await read('GET', `${url}/files/0`, { key });
  const sums: Sum[] = files.flatMap((file: { sums: Sum[] | null }) => file.sums ?? []);
  for (const [currency, left] of leftOver(sums)) {
    if (left !== 0n)
      throw new Fault(
        `The statement ${url} does not add up: ${left} nanos of ${currency} are left.`,
      );
  }
}

async function untilCompleted(url: string, key: string, within_ms: number): Promise<void> {
  for (const until = performance.now() + within_ms; ; await sleep(LOOK_MS)) {
    const { status, error_message } = await read('GET', url, { key });
    if (status === 'completed') return;
    if (status === 'failed') throw new Fault(`${url} has failed: ${error_message}`);
    if (performance.now() < until) continue;
    if (status === 'queued')
      throw new NotChecked(
        'Another export of the platform is being written, and this one waited for it: ask again.',
      );
    throw new Fault(
      `${url} is ${status} after ${within_ms / 1_000} s: does worker_export run, with the EXPORT_DIR of the API?`,
    );
  }
}

/** Opening and entries less closing in nanos, by currency. */
function leftOver(sums: readonly Sum[]): Map<string | null, bigint> {
  const left = new Map<string | null, bigint>();
  for (const { currency, type, amount_nanos } of sums) {
    if (type === 'cost') continue;
    const nanos = BigInt(amount_nanos ?? 0);
    left.set(currency, (left.get(currency) ?? 0n) + (type === 'closing' ? -nanos : nanos));
  }
  return left;
}
