import { hash, timingSafeEqual } from 'node:crypto';
import type { Counts } from '../../domain/gateways/fleet';
import type { Batches } from './batches';
import type { Reply } from './replies';

/** The configuration to run, if it is another than the one that is known. */
export type ConfigAnswer = PolledConfig | 'same' | 'none' | 'away';

interface PolledConfig {
  etag: string;
  version: number;
  config: object;
}

/** A gateway's question for its configuration. */
export interface ConfigQuestion {
  /** The gateway and its group, as it reports itself. */
  id: string;
  group: string;
  /** Of what it has: NO_CONFIG_ETAG for nothing, undefined for any answer at once. */
  etag: string | undefined;
  /** How long the answer may wait for another one. */
  wait_ms: number;
  signal?: AbortSignal;
}

/** What was heard, and how the control plane wants to be asked and told. */
export interface Heard {
  answer: ConfigAnswer;
  /** True if it lets questions wait. */
  can_wait: boolean;
  /** How often it wants reports; undefined if it does not say. */
  report_ms: number | undefined;
}

/** Stands for the absence of a configuration. */
export const NO_CONFIG_ETAG = '"none"';

/**
 * Whether a token may reload: `yes` for a service's, or, while the control plane is away, for this
 * gateway's own.
 */
export type ReloadRight = 'yes' | 'forbidden' | 'unknown';

const CONFIG_PATH = '/v1/gateway/config';

/** Beyond the wait that was asked for. */
const ANSWER_MS = 5_000;
/** A control plane of the version before is asked and told in its words for so long. */
const OLDER_MS = 60_000;

/** The routes of a gateway's configuration. */
export interface ConfigRoutes {
  ask(question: ConfigQuestion): Promise<Heard>;
  /** False if the report did not arrive. */
  report(state: GatewayReport): Promise<boolean>;
}

/** What every version of the control plane takes of a report. */
interface BasicReport {
  id: string;
  host: string;
  config_version: number | null;
  config_hash: string;
  refused_version: number | null;
  error: string | null;
  started_at: Date;
}

/** What a gateway says of itself. */
export interface GatewayReport extends BasicReport {
  group: string;
  state: 'running' | 'draining' | 'stopped';
  in_flight: number;
  held: number;
  counts: Counts;
}

/**
 * Asks for configurations and reports. A control plane of the version before refuses what it does
 * not know (422), and then gets what it does.
 */
export function openConfigRoutes(batches: Batches): ConfigRoutes {
  let older_until = Number.NEGATIVE_INFINITY;
  const isOlder = () => performance.now() < older_until;
  return {
    async ask(question) {
      if (!isOlder()) {
        const heard = await ask(batches, question);
        if (heard !== 'unknown') return heard;
        older_until = performance.now() + OLDER_MS;
      }
      return askOlder(batches, question);
    },
    async report(state) {
      const path = `${CONFIG_PATH}/report`;
      if (!isOlder()) {
        const reply = await batches.request('POST', path, state);
        if (reply?.status !== 422) return reply?.status === 200;
        older_until = performance.now() + OLDER_MS;
      }
      if (state.state === 'stopped') return true;
      return (await batches.request('POST', path, inOlderWords(state)))?.status === 200;
    },
  };
}

async function ask(
  batches: Batches,
  { id, group, etag, wait_ms, signal }: ConfigQuestion,
): Promise<Heard | 'unknown'> {
  const query = new URLSearchParams({ gateway_id: id, group, wait_ms: String(wait_ms) });
  const reply = await batches.request('GET', `${CONFIG_PATH}?${query}`, undefined, {
    headers: etag === undefined ? {} : { 'if-none-match': etag },
    timeout_ms: wait_ms + ANSWER_MS,
    ...(signal ? { signal } : {}),
  });
  if (reply?.status === 422) return 'unknown';
  const report_ms = Number(reply?.headers?.['x-svc-report-ms']);
  return {
    answer: answerOf(reply),
    can_wait: true,
    report_ms: report_ms > 0 ? report_ms : undefined,
  };
}

async function askOlder(
  batches: Batches,
  { etag, signal }: Pick<ConfigQuestion, 'etag' | 'signal'>,
): Promise<Heard> {
  const headers = etag === undefined ? {} : { 'if-none-match': etag };
  const options = { headers, ...(signal ? { signal } : {}) };
  const reply = await batches.request('GET', CONFIG_PATH, undefined, options);
  return { answer: answerOf(reply), can_wait: false, report_ms: undefined };
}

function answerOf(reply: Reply | undefined): ConfigAnswer {
  if (reply?.status === 304) return 'same';
  if (reply?.status === 404) return 'none';
  if (reply?.status !== 200) return 'away';
  const { version, config } = reply.body as { version: number; config: object };
  return { etag: `"${version}"`, version, config };
}

function inOlderWords(state: GatewayReport): BasicReport {
  const { id, host, config_version, config_hash, refused_version, error, started_at } = state;
  return { id, host, config_version, config_hash, refused_version, error, started_at };
}

/**
 * Whether the other token may reload: the control plane decides, or while it is away only our own
 * token may.
 */
export async function reloadRightOf(
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
