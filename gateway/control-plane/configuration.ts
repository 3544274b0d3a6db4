import { hash, timingSafeEqual } from 'node:crypto';
import type { Batches } from './batches';

/** The configuration to run, if it is another than the one that is known. */
export type ConfigAnswer = PolledConfig | 'same' | 'none' | 'away';

interface PolledConfig {
  etag: string;
  version: number;
  config: object;
}

/**
 * Whether a token may reload: `yes` for a service's, or, while the control plane is away, for this
 * gateway's own.
 */
export type ReloadRight = 'yes' | 'forbidden' | 'unknown';

const CONFIG_PATH = '/v1/gateway/config';

/**
 * The control plane's configuration for gateways, unless it is the one of this ETag; `away` if it
 * does not answer.
 */
export async function askConfig(batches: Batches, etag: string | undefined): Promise<ConfigAnswer> {
  const headers = etag === undefined ? {} : { 'if-none-match': etag };
  const reply = await batches.request('GET', CONFIG_PATH, undefined, { headers });
  if (reply?.status === 304) return 'same';
  if (reply?.status === 404) return 'none';
  if (reply?.status !== 200) return 'away';
  const { version, config } = reply.body as { version: number; config: object };
  return { etag: `"${version}"`, version, config };
}

/** Reports the configuration that this gateway runs; false if the report did not arrive. */
export async function reportConfig(batches: Batches, state: object): Promise<boolean> {
  return (await batches.request('POST', `${CONFIG_PATH}/report`, state))?.status === 200;
}

/**
 * Whether the other token may reload: the control plane decides, or while it is away only our own
 * token may.
 */
export async function verdictOn(
  batches: Batches,
  { token, other }: { token: string; other: string },
): Promise<ReloadRight> {
  const headers = { authorization: `Bearer ${other}` };
  const reply = await batches.request('GET', CONFIG_PATH, undefined, { headers });
  if (reply?.status === 403) return 'forbidden';
  if (reply !== undefined) return [200, 304, 404].includes(reply.status) ? 'yes' : 'unknown';
  return isSameToken(token, other) ? 'yes' : 'unknown';
}

/** Compares two tokens, in a time that says nothing of their difference. */
export function isSameToken(one: string, other: string): boolean {
  const digest = (text: string) => hash('sha256', text, 'buffer');
  return timingSafeEqual(digest(one), digest(other));
}
