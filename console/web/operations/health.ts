import type { Answer } from '../api/client';
import { drifts, type Gateway, spanWords } from './words';

/** How one part of the platform stands, in a word; what is behind it is one link away. */
export interface Light {
  name: string;
  word: string;
  kind: 'good' | 'waiting' | 'bad' | 'neutral';
  about?: string;
  /** The page that shows more of it. */
  to: string;
  search?: Record<string, string>;
}

// As the API says that a worker is behind.
const LATE_MS = 60_000;

// The first of these that any gateway has is the word for all.
const worst_first = [
  'silent',
  'drifted',
  'rejected',
  'unsupported',
  'applying',
  'in_sync',
] as const satisfies readonly Gateway['drift'][];

/** All gateways in one word, with how many are how. */
export function gatewayLight(gateways: readonly Pick<Gateway, 'drift'>[]): Light {
  const counts = worst_first
    .map((drift) => ({ drift, count: gateways.filter((one) => one.drift === drift).length }))
    .filter(({ count }) => count > 0);
  const [worst] = counts;
  const here = { name: 'Gateways', to: '/gateways' };
  if (worst === undefined)
    return { ...here, word: 'none', kind: 'waiting', about: 'No gateway reports.' };
  const { word, kind } = drifts[worst.drift];
  const all = counts.map(({ drift, count }) => `${count} ${drifts[drift].word}`).reverse();
  return { ...here, word, kind, about: all.join(', ') };
}

type Status = Answer<'GET /api/workers/status'>;
type Queue = Status['workers'][number]['queues'][number];

/** Temporal, each queue of the workers, and the messages that wait for Temporal. */
export function workerLights(
  { temporal, workers, outbox }: Pick<Status, 'temporal' | 'workers' | 'outbox'>,
  now_ms: number,
): Light[] {
  const queues = workers.flatMap((worker) => worker.queues).map(queueLight);
  const here = { name: 'Temporal', to: '/workers' };
  return [
    temporal === 'up'
      ? { ...here, word: 'up', kind: 'good' }
      : { ...here, word: 'away', kind: 'bad', about: 'Nothing is known of the workers.' },
    ...queues,
    outboxLight(outbox, now_ms),
  ];
}

function queueLight({ task_queue, pollers, backlog, oldest_task_age_seconds }: Queue): Light {
  const here = { name: `Queue ${task_queue}`, to: '/workers' };
  if (pollers.length === 0)
    return { ...here, word: 'unpolled', kind: 'bad', about: 'No worker asks for its tasks.' };
  if (backlog > 0 && oldest_task_age_seconds * 1_000 > LATE_MS) {
    const about = `${backlog} waiting, the oldest for ${spanWords(oldest_task_age_seconds)}`;
    return { ...here, word: 'behind', kind: 'waiting', about };
  }
  const about = pollers.length === 1 ? '1 worker' : `${pollers.length} workers`;
  return { ...here, word: 'polled', kind: 'good', about };
}

function outboxLight(
  { parked, waiting, oldest_waiting_since }: Status['outbox'],
  now_ms: number,
): Light {
  const here = { name: 'Outbox', to: '/workers' };
  if (parked > 0)
    return {
      ...here,
      word: 'parked',
      kind: 'bad',
      about: `${parked} given up`,
      search: { outbox: 'parked' },
    };
  const since_ms = oldest_waiting_since === null ? now_ms : Date.parse(oldest_waiting_since);
  const search = { outbox: 'waiting' };
  if (now_ms - since_ms > LATE_MS)
    return { ...here, word: 'behind', kind: 'waiting', about: `${waiting} waiting`, search };
  const about = waiting === 0 ? 'nothing waits' : `${waiting} on their way`;
  return { ...here, word: 'moving', kind: 'good', about, search };
}

type Config = Answer<'GET /api/admin/payments/config'>;
const providers = [
  ['payment_provider_a', 'Payment provider A'],
  ['payment_provider_b', 'Payment provider B'],
] as const;

/** The payment providers: which one takes money, and whether it can. */
export function providerLights(
  config: Pick<Config, 'active_provider'> &
    Record<'payment_provider_a' | 'payment_provider_b', { enabled: boolean; configured: boolean }>,
): Light[] {
  return providers.map(([id, name]) => {
    const { enabled, configured } = config[id];
    const here = { name, to: '/payments', search: { tab: 'providers' } };
    if (config.active_provider === id) {
      if (!configured)
        return { ...here, word: 'unready', kind: 'bad', about: 'Payments go to it: no account.' };
      if (!enabled)
        return {
          ...here,
          word: 'off',
          kind: 'bad',
          about: 'Payments go to it: it may not be used.',
        };
      return { ...here, word: 'active', kind: 'good' };
    }
    if (configured && enabled) return { ...here, word: 'ready', kind: 'neutral' };
    return { ...here, word: configured ? 'off' : 'unused', kind: 'neutral' };
  });
}
