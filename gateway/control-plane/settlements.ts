import { setTimeout as sleep } from 'node:timers/promises';
import type { Settle, Settlement, Usage } from '../../domain/ledger/calls';
import type { Logger } from '../../runtime/log';
import type { Wire } from '../../runtime/wire';
import type { Batches } from './batches';
import { inKnownWords, withoutCaller } from './known-words';
import { bodyOf, errorOf, isAnswered, isRefusedCall, type NoReply, type Reply } from './replies';
import type { Spool } from './spool';

/** The settlements that the control plane has not accepted yet. */
export type Settlements = ReturnType<typeof createSettlements>;

/** Hears what a settlement came to, once it is accepted. */
export type OnSettled = (settled: Wire<Settlement>) => void;

const SETTLE_TIMEOUT_MS = 5_000;
const BACKOFF_MS = [200, 500, 1_000, 2_000, 5_000];

// How often the files of gateways that have ended are looked for.
const TAKE_OVER_MS = 15_000;

/** With a spool a settlement that this process cannot send is sent by the next one. */
export function createSettlements(batches: Batches, log: Logger, spool?: Spool) {
  let unsettled = 0;
  const settle = async (
    settlement: Settle,
    estimate: Usage | undefined,
    heard?: OnSettled,
  ): Promise<void> => {
    const deliverIt = (one: Settle) => deliver({ batches, log, heard }, one);
    // Who served is no reason to charge nothing: the last word is by the prices of the hold itself.
    const deliverAtLast = async (one: Settle) => {
      const again = await deliverIt(one);
      return again !== undefined && isOfStranger(again) ? deliverIt(withoutServer(one)) : again;
    };
    const refusal = await deliverIt(settlement);
    if (refusal === undefined) return;
    const { outcome, usage } = settlement;
    if (refusal.status === 422 && outcome === 'failed' && usage !== undefined) {
      // What it delivered before it failed is all that it owes, in whatever words.
      const plain = inOlderWords(settlement, usage);
      const again = await deliverAtLast(plain);
      if (again !== undefined) logLost(log, plain, again, usage);
      return;
    }
    if (refusal.status !== 422 || outcome !== 'completed' || estimate === undefined) {
      logLost(log, settlement, refusal);
      return;
    }
    const { reservation_id } = settlement;
    const { code, message } = errorOf(refusal);
    log.error({ reservation_id, code }, `a usage was refused, the estimate is charged: ${message}`);
    const held: Settle = { ...settlement, usage: estimate, usage_source: 'estimated' };
    const again = await deliverIt(held);
    if (again === undefined) return;
    const plain = inOlderWords(held, estimate);
    const last = await deliverAtLast(plain);
    if (last !== undefined) logLost(log, plain, last, settlement.usage);
  };
  const track = (settling: Promise<void>, forget: (() => void) | undefined): void => {
    unsettled += 1;
    void settling.finally(() => {
      unsettled -= 1;
      forget?.();
    });
  };
  /** Returns at once. `estimate` is what was held for. What somebody hears of is urgent. */
  const send = (settlement: Settle, estimate?: Usage, heard?: OnSettled): void => {
    // A process that takes it over has no caller who asked for the cost.
    const plain = settlement.with_cost ? { ...settlement, with_cost: undefined } : settlement;
    const forget = spool?.keep([plain, estimate]);
    track(settle(settlement, estimate, heard), forget);
  };
  const takeOver = () => spool?.takeOver((one, usage, forget) => track(settle(one, usage), forget));
  takeOver();
  const timer = spool && setInterval(takeOver, TAKE_OVER_MS).unref();
  return {
    send,
    count: (): number => unsettled,
    close(): void {
      clearInterval(timer);
      spool?.close();
    },
  };
}

/**
 * A settlement with no member that an API of the version before refuses. That one knows searches
 * and containers as runs of tools.
 */
function inOlderWords(
  { stored_ids: _, stored_at: _at, provider_cost_usd: _cost, ...settlement }: Settle,
  usage: Usage,
): Settle {
  const { tool_calls = 0, web_searches = 0, file_searches = 0, containers = 0 } = usage;
  const plain: Usage = {
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    cached_tokens: usage.cached_tokens,
    cache_write_tokens: usage.cache_write_tokens,
    reasoning_tokens: usage.reasoning_tokens,
    audio_input_tokens: usage.audio_input_tokens,
    audio_output_tokens: usage.audio_output_tokens,
    characters: usage.characters,
    seconds: usage.seconds,
    tool_calls: tool_calls + web_searches + file_searches + containers,
  };
  return withoutCaller({ ...settlement, usage: plain });
}

/** True for the refusal of a model, or of an own key, that the hold has not frozen. */
function isOfStranger(refusal: Reply): boolean {
  return (
    refusal.status === 422 &&
    /(?:^|\.)(?:model|provider_key_id)$/.test(errorOf(refusal).param ?? '')
  );
}

function withoutServer({ provider: _, model: __, provider_key_id: ___, ...plain }: Settle): Settle {
  return plain;
}

/** Repeats a settlement until it is accepted, or refused for good: that refusal is given back. */
async function deliver(
  { batches, log, heard }: { batches: Batches; log: Logger; heard: OnSettled | undefined },
  settlement: Settle,
): Promise<Reply | undefined> {
  for (let attempt = 0; ; attempt += 1) {
    const reply = await inKnownWords(settlement, (body) =>
      batches.send('settle', body, SETTLE_TIMEOUT_MS, heard !== undefined),
    );
    if (isAnswered(reply) && reply.status === 200) {
      heard?.(bodyOf<Wire<Settlement>>(reply));
      return undefined;
    }
    if (isFinal(reply)) return reply;
    const { reservation_id, request_id } = settlement;
    if (attempt === 0) log.warn({ reservation_id, request_id }, 'a settlement is repeated');
    await sleep(BACKOFF_MS[attempt] ?? BACKOFF_MS.at(-1));
  }
}

// The estimate costs what was held, so the ledger refuses it only if it can charge nothing at all:
// at the bound of what a wallet can hold, or by a price that has no amount for this use. Then a
// person must know the loss.
function logLost(log: Logger, settlement: Settle, refusal: Reply, refused_usage?: Usage): void {
  const { code, message, param } = errorOf(refusal);
  const { outcome } = settlement;
  const loss = outcome === 'completed' ? 'an answer is not charged' : 'a hold waits for its end';
  log.error(
    { ...settlement, refused_usage, status: refusal.status, code, param },
    `${loss}, as its settlement was refused: ${message}`,
  );
}

// A refusal of the item itself repeats for ever; a refused credential or a busy ledger passes.
function isFinal(reply: Reply | NoReply): reply is Reply {
  if (!isAnswered(reply) || reply.status < 400 || reply.status >= 500) return false;
  // An API of the version before that runs on would charge the platform's price for an own key.
  const { code, param } = errorOf(reply);
  if (code === 'unknown_field' && /provider_key_id$/.test(param ?? '')) return false;
  return !isRefusedCall(reply) && reply.status !== 429;
}
