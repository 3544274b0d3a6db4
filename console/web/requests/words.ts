import type { Answer } from '../api/client';

export type Story = Answer<'GET /api/requests/:id'>;
type Kind = 'good' | 'bad' | 'waiting' | 'neutral' | 'info';

/** How a call stands, in one word. */
export function standing({ status, outcome, cost_ticket }: Story): { word: string; kind: Kind } {
  if (outcome === 'completed') return { word: 'completed', kind: 'good' };
  if (outcome === 'failed') return { word: 'failed', kind: 'bad' };
  if (outcome === 'canceled') return { word: 'canceled', kind: 'neutral' };
  if (status === null && cost_ticket?.status === 'open')
    return { word: 'waits for money', kind: 'waiting' };
  if (status === null) return { word: 'refused', kind: 'bad' };
  return { word: status, kind: status === 'open' ? 'info' : 'neutral' };
}

const lines: Record<string, string> = {
  input: 'Input tokens',
  cached: 'Input tokens read from a cache',
  cache_write: 'Input tokens written to a cache',
  cache_write_1h: 'Input tokens written to a cache for an hour',
  audio_input: 'Audio input tokens',
  output: 'Output tokens',
  audio_output: 'Audio output tokens',
  minimum: 'Up to the least that a call costs',
  beyond_bound: 'Beyond what was held, not charged',
  rounding: 'Rounding',
};

/** What a price line is of, in words. */
export function lineWords(what: string): string {
  return lines[what] ?? spelled(what);
}

/** `audio_input_tokens` as `Audio input tokens`. */
export function spelled(name: string): string {
  const words = name.replaceAll('_', ' ').replaceAll('.', ': ');
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`;
}

export interface Step {
  at: string;
  title: string;
  detail?: string;
  kind: Kind;
}

/** What happened to a call, in order: its ticket, its hold, its attempts and its settlement. */
export function stepsOf(story: Story): Step[] {
  const steps: Step[] = [];
  const { cost_ticket: ticket, settlement } = story;
  if (ticket) steps.push({ at: ticket.created_at, title: causeOf(story), kind: 'waiting' });
  if (ticket?.decided_at)
    steps.push({
      at: ticket.decided_at,
      title: `Its ticket was ${ticket.status === 'denied' ? 'denied' : 'approved'}`,
      ...(ticket.note ? { detail: ticket.note } : {}),
      kind: ticket.status === 'denied' ? 'bad' : 'good',
    });
  // A hold that an approval made is written as of the beginning of the approval.
  const decided_ms = Date.parse(ticket?.decided_at ?? '') || 0;
  for (const { type, phase, created_at } of story.transactions)
    if (type === 'reservation')
      steps.push({
        at: new Date(Math.max(Date.parse(created_at), decided_ms)).toISOString(),
        title: phase === 'excess' ? 'More was held' : 'Money was held',
        kind: 'info',
      });
  for (const { type, created_at, payload } of story.events) {
    if (ticket && type.startsWith('cost_ticket.')) continue;
    steps.push({ at: created_at, ...eventWords(type, payload) });
  }
  if (settlement)
    steps.push({
      at: settlement.settled_at,
      title: settlement.actual_cost === 0 ? 'Settled: it cost nothing' : 'Settled',
      kind: 'good',
    });
  return steps.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

/** Why a ticket was opened, which its event tells: calls that joined an open ticket have none. */
function causeOf({ events }: Story): string {
  const opened = events.find(({ type }) => type === 'cost_ticket.created');
  if (opened === undefined) return 'It waited for a ticket';
  return opened.payload.cause === 'budget' ? 'Its budget did not cover it' : 'No wallet covered it';
}

function eventWords(type: string, payload: Record<string, unknown>): Omit<Step, 'at'> {
  if (type === 'request.completed') return completed(payload);
  if (type === 'request.blocked')
    return { title: 'A policy blocked it', detail: textOf(payload.policy ?? ''), kind: 'bad' };
  if (type === 'request.refused')
    return { title: 'It was refused', detail: textOf(payload.code ?? ''), kind: 'bad' };
  if (type === 'rate_limit.exceeded')
    return { title: 'A rate limit refused it', detail: textOf(payload.scope ?? ''), kind: 'bad' };
  return { title: spelled(type), kind: 'neutral' };
}

/**
 * How a call ended that was paid for: attempts, where it went, how long it took, and what the
 * provider refused. Good, unless its caller got an error.
 */
export function completed(payload: Record<string, unknown>): Omit<Step, 'at'> {
  const { status, attempts, target, duration_ms, error_code, provider_status, provider_code } =
    payload;
  const is_good = typeof status === 'number' && status < 400;
  const parts = [
    `the caller got ${textOf(status)}${error_code ? ` ${textOf(error_code)}` : ''}`,
    typeof attempts === 'number' ? `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}` : '',
    target ? `at ${textOf(target)}` : '',
    typeof duration_ms === 'number' ? `${duration_ms} ms` : '',
    provider_status
      ? `the provider said ${textOf(provider_status)} ${textOf(provider_code ?? '')}`.trim()
      : '',
  ];
  const detail = parts.filter((part) => part !== '').join(', ');
  return is_good
    ? { title: 'The answer ended', detail, kind: 'good' }
    : { title: 'The call ended', detail, kind: 'bad' };
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number'
    ? String(value)
    : JSON.stringify(value);
}
