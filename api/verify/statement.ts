import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, ask, Fault, Left, NotChecked, read } from './client';
import type { Deployment } from './deployment';
import { NAME } from './probe';

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
  const asked = await askedFor(making, key, body);
  if (asked.body?.error?.code === 'exports_exceeded')
    throw new NotChecked(asked.body.error.message);
  if (asked.status !== 201)
    throw new Fault(`POST ${making} answers ${asked.status}: ${asked.body?.error?.message}`);
  const { id } = asked.body;
  const found = await lookAt(`${url}/${id}`, key, within_ms).catch((error: Error) => error);
  // Canceled if it waits or is written, deleted if it is there.
  await ended(`${url}/${id}`, key, found instanceof Error ? found.message : '');
  if (found instanceof Error) throw found;
  return `the statement ${id} of the last hour is written and adds up`;
}

/**
 * Asks for an export. What has no answer, or one of a proxy that gave up, is asked once more under
 * its key: whichever of the two makes it, this one says its id. Throws a Left if none does.
 */
async function askedFor(url: string, key: string, body: object): Promise<Answer> {
  const headers = { 'idempotency-key': `${NAME}-${randomUUID()}` };
  const post = () => ask('POST', url, { key, body, headers });
  const first = await post().catch((error: Error) => error);
  if (!(first instanceof Error) && first.status < 500) return first;
  const why = first instanceof Error ? first.message : `POST ${url} answers ${first.status}.`;
  const left = (again: string) =>
    new Left(`${why} Asked again: ${again} An export may be left: GET ${url} lists them.`);
  const second = await post().catch((error: Error) => {
    throw left(error.message);
  });
  // A refusal of the API's own says that it made none.
  const is_unknown = first instanceof Error || first.body?.error?.code === undefined;
  if (second.status >= 500 && is_unknown)
    throw left(`it answers ${second.status}, ${second.body?.error?.message ?? 'no words'}`);
  return second;
}

/** Ends an export, with a second try; one that has failed left nothing. */
async function ended(url: string, key: string, why: string): Promise<void> {
  const end = async () => {
    const { status, body } = await ask('DELETE', url, { key });
    if (status !== 200 && body?.error?.code !== 'export_state')
      throw new Fault(`DELETE ${url} answers ${status}: ${body?.error?.message}`);
  };
  await end()
    .catch(end)
    .catch((error: Error) => {
      throw new Left(`${why} ${error.message} The export may be left.`.trim());
    });
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
