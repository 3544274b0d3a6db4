import { AppError } from '../../domain/errors';
import type { Estimated, Routed } from '../call/call';
import { encodingOf } from '../counting/tokenizer';
import { byRun, type Demand, nothing_asked } from '../families/demand';
import { paymentOf } from './pay';
import { checkPriced } from './priced';

// Far above what any model reads; the ledger takes whole numbers only.
const TOKENS_MAX = 1_000_000_000_000;

/** The stage that counts what goes upstream, and reads how the client wants it paid. */
export async function estimate(call: Routed): Promise<Estimated> {
  const { gateway, family, request, candidates } = call;
  const agent_id = call.identity.agent_id ?? agentOf(call);
  const payment = paymentOf(call);
  const demand = demandOf(call);
  if (demand.needs.length > 0) await checkPriced(call, demand);
  const input = family.input(request.body);
  const counted = gateway.tokenizer.count(input.texts, encodingOf(call.model));
  const text_tokens = typeof counted === 'number' ? counted : await counted;
  const units = family.units?.(request.body, text_tokens);
  // A count is of what the client sends, not of what is held for.
  const unseen = family.is_free ? 0 : input.unseen;
  const unseen_tokens = unseen * call.snapshot.settings.estimates.unseen_input_tokens;
  const tokens = Math.ceil(text_tokens * factorOf(candidates)) + input.tokens + unseen_tokens;
  // Nothing that goes upstream is free to ask.
  const estimated_prompt_tokens = Math.max(1, Math.min(tokens, TOKENS_MAX));
  const has_unseen_input = input.unseen > 0 || input.has_foreign;
  return Object.assign(call, {
    agent_id,
    payment,
    estimated_prompt_tokens,
    has_unseen_input,
    pictures: input.pictures,
    sound_tokens: Math.min(input.sound_tokens, estimated_prompt_tokens),
    units,
    demand,
  });
}

/** What the request asks for beyond tokens, of those who may serve it. */
function demandOf({ family, request, candidates }: Routed): Demand {
  const demand = family.demand?.(request.body) ?? nothing_asked;
  const by_run = candidates.filter(({ target }) => target.wire.bills_runs);
  if (by_run.length === 0) return demand;
  return byRun(
    demand,
    request.body,
    by_run.map(({ target }) => target.provider),
  );
}

/**
 * How many tokens of a provider one of ours is at most: whichever target serves in the end, the
 * hold covers it.
 */
function factorOf(candidates: Routed['candidates']): number {
  if (candidates.length === 0) return 1;
  return Math.max(...candidates.map(({ target }) => target.token_factor));
}

const AGENT_HEADER = 'x-svc-agent-id';
const AGENT_LENGTH_MAX = 200;

function agentOf({ ctx }: Routed): string | null {
  const agent_id = ctx.req.headers[AGENT_HEADER] as string | undefined;
  if (agent_id === undefined) return null;
  if (agent_id.length <= AGENT_LENGTH_MAX) return agent_id;
  throw new AppError('invalid_field', `${AGENT_HEADER} is not the id of an agent.`, {
    param: AGENT_HEADER,
  });
}
