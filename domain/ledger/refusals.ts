import { AppError, type ErrorCode, type ErrorDetails, tooMany } from '../errors';
import type { NamedId, PricedModel, Warning } from './calls';

/** The columns of an answer from which `words` makes its text. */
interface RefusedItem {
  code: string | null;
  param: string | null;
  cost_ticket: Record<string, unknown> | null;
}

interface Refusal {
  code: ErrorCode;
  /** For the person whose reserve, settle or redeem is refused. */
  message: string;
  /** For the person whose verdict is refused, if that is another message. */
  verdict_message?: string;
  /** The field of the verdict that is wrong. */
  verdict_param?: string;
}

/**
 * The refusals that the ledger's functions return as a row; each message says how a person can go
 * on.
 */
export const refusals: Record<string, Refusal> = {
  unknown_org: { code: 'invalid_field', message: 'org_id is not a known organization.' },
  organization_suspended: {
    code: 'organization_suspended',
    message:
      'This organization is suspended: none of its calls are paid for. Ask its platform admin.',
  },
  not_of_organization: {
    code: 'invalid_field',
    message: 'This id does not belong to the organization org_id.',
  },
  invalid_credential: {
    code: 'invalid_credential',
    message: 'This key has expired or was revoked. Use a living key.',
  },
  not_team_member: {
    code: 'not_team_member',
    message:
      'This person is not in this team, so its wallet does not pay. An admin takes them in: POST /v1/organizations/{id}/teams/{team_id}/members.',
    verdict_message:
      "The ticket's person is not in its team any more. Take them in again, or deny the ticket.",
  },
  model_not_priced: {
    code: 'model_not_priced',
    message:
      'A model of this request has no price. A platform admin must set one: POST /v1/admin/model-pricing.',
  },
  service_tier_not_priced: {
    code: 'invalid_field',
    message:
      'There is no price for this tier of service. Ask for another one, or for a price of it: service_tiers of PUT /v1/admin/model-pricing/{id}.',
  },
  region_not_priced: {
    code: 'invalid_field',
    message:
      'There is no price for this region. Ask for another one, or for a price of it: regions of PUT /v1/admin/model-pricing/{id}.',
  },
  exchange_rate_missing: {
    code: 'exchange_rate_missing',
    message:
      "There is no exchange rate for the organization's currency. A platform admin must set one: PUT /v1/admin/exchange-rates.",
  },
  amount_too_large: {
    code: 'amount_too_large',
    message: 'The cost would be above 9000000000 of the currency.',
    verdict_message:
      'A wallet holds at most 9000000000 of its currency, and a budget allows no more in a window.',
    verdict_param: 'amount',
  },
  session_limit_exceeded: {
    code: 'session_limit_exceeded',
    message: 'This session has used up its actions or its cost limit.',
  },
  key_budget_exceeded: {
    code: 'key_budget_exceeded',
    message:
      'The budget of this key does not cover the estimated cost. Use another key or make one with a larger max_budget.',
  },
  approval_not_allowed: {
    code: 'permission_denied',
    message:
      'This needs the permission org:billing, or that you are an admin of the team of this ticket.',
  },
  budget_not_yours: {
    code: 'permission_denied',
    message:
      "A team's admin raises no budget of the team, of the organization or of themselves. Ask somebody with org:billing.",
  },
  source_not_yours: {
    code: 'permission_denied',
    message:
      "A team's admin pays from the team's wallet alone. Leave from_wallet_id and wallet_id out, or ask somebody with org:billing.",
  },
  amount_beyond_missing: {
    code: 'invalid_field',
    message:
      "A team's admin moves no more than what is missing, except to the asker's own wallet. Leave amount out, or name that wallet in wallet_id.",
    verdict_param: 'amount',
  },
  source_not_of_ticket: {
    code: 'invalid_field',
    message: "from_wallet_id must be the wallet of the organization or of the ticket's team.",
    verdict_param: 'from_wallet_id',
  },
  request_canceled: {
    code: 'request_canceled',
    message: 'This request_id was canceled and can never hold. Use a new one.',
  },
  idempotency_key_reused: {
    code: 'idempotency_key_reused',
    message: 'This request_id has already reserved with another body. Use a new one.',
  },
  insufficient_balance: {
    code: 'insufficient_balance',
    message:
      'No wallet covers the estimated cost. Top up one of the wallets of the cost ticket by its own shortfall, or ask for approval.',
    verdict_message:
      'The wallet that pays for this approval does not cover what is missing. Top it up first.',
  },
  usage_constraint_exceeded: {
    code: 'usage_constraint_exceeded',
    message:
      'A usage constraint of this agent does not allow this request until its window ends. Ask for a larger max_value: PUT /v1/agents/{id}/usage-constraints/{cid}.',
  },
  usage_not_priced: {
    code: 'invalid_field',
    message:
      'The frozen price charges nothing for this usage. Send what the price counts (tokens, seconds or characters), or say outcome: failed.',
  },
  ticket_not_found: { code: 'not_found', message: 'No cost ticket was found under this id.' },
  ticket_owner_differs: {
    code: 'ticket_owner_differs',
    message: 'This cost ticket belongs to another key or another request body.',
  },
  ticket_approved: { code: 'ticket_approved', message: 'This cost ticket was approved already.' },
  ticket_denied: {
    code: 'ticket_denied',
    message: 'This cost ticket was denied.',
    verdict_message: 'This cost ticket was denied already.',
  },
  ticket_redeemed: {
    code: 'ticket_redeemed',
    message: 'This cost ticket has paid for another call already. Send the request without it.',
    verdict_message: 'This cost ticket has been redeemed: its request is paid.',
  },
  ticket_expired: {
    code: 'ticket_expired',
    message: 'This cost ticket has expired. Send the request again for a new one.',
  },
  verdict_too_late: {
    code: 'verdict_too_late',
    message:
      'The verdict arrived too late and changed nothing. Look at the ticket, then repeat it.',
  },
  wallet_not_of_ticket: {
    code: 'invalid_field',
    message: "wallet_id must be one of the ticket's wallets.",
    verdict_param: 'wallet_id',
  },
  manual_credit_not_allowed: {
    code: 'manual_credit_not_allowed',
    message:
      "This organization's own wallet is filled by the platform only. Name a user's or team's wallet of the ticket, which is filled by a transfer.",
  },
  amount_below_shortfall: {
    code: 'amount_below_shortfall',
    message:
      'The amount does not cover the shortfall of the wallet. Leave it out to credit exactly what is missing.',
  },
  not_found: { code: 'not_found', message: 'No reservation was found under this id.' },
  price_not_frozen: {
    code: 'invalid_field',
    message: 'This provider and model were not part of the reserve.',
  },
  provider_key_not_frozen: {
    code: 'invalid_field',
    message: 'This key of the provider was not part of the reserve.',
  },
};

/** The message of a refusal that names more than its code can. */
export function words(
  { code, param, cost_ticket }: RefusedItem,
  asked?: PricedModel,
): string | undefined {
  if (code === 'model_not_priced' && param === 'model' && asked) return noPrice(asked);
  if (code === 'insufficient_balance' && cost_ticket?.cause === 'budget')
    return 'A budget has no room for the estimated cost. Ask for the approval of the cost ticket, which raises it once, or for a larger budget.';
  if (code === 'ticket_denied' && cost_ticket?.note)
    return `This cost ticket was denied: ${cost_ticket.note}`;
  return undefined;
}

/** The most cost tickets that may be open at one time. */
const OPEN_TICKETS_MAX = { key_id: 50, org_id: 500 };

interface RefusedReserve extends RefusedItem {
  resets_at: Date | null;
}

/** True if no wallet covers a reserve, and as many tickets are open as may be. */
export function isBeyondTickets({ code, cost_ticket, resets_at }: RefusedReserve): boolean {
  return code === 'insufficient_balance' && cost_ticket === null && resets_at !== null;
}

/** The refusal (429) of a reserve that would have opened one ticket too many. */
export function openTicketsExceeded({ param, resets_at }: RefusedReserve): AppError {
  const whose = param === 'key_id' ? 'key' : 'organization';
  const limit = OPEN_TICKETS_MAX[param === 'key_id' ? 'key_id' : 'org_id'];
  return usedUp(
    'open_tickets_exceeded',
    `No wallet covers the estimated cost, and this ${whose} has ${limit} cost tickets open, which is as many as one ${whose} may have. Top up, or let somebody approve or deny some of them.`,
    { limit, resets_at: resets_at ?? new Date(), ...(param ? { param } : {}) },
  );
}

/** The constraint that refuses a hold, by the money or answers of its window. */
export interface RefusingCap extends Warning {
  current_value: number;
  /** What the hold would add. */
  needed: number;
  currency: string;
}

/** The refusal (429) of a hold that a cap on its agent does not allow. */
export function capExceeded({ currency, ...cap }: RefusingCap): AppError {
  const { id, constraint_type, interval, max_value, current_value, needed, resets_at } = cap;
  const [limit, used, more] = [max_value, current_value, needed].map(plain.format);
  const unit = constraint_type === 'cost' ? currency : max_value === 1 ? 'answer' : 'answers';
  return usedUp(
    'usage_constraint_exceeded',
    `This agent may use ${limit} ${unit} a calendar ${interval} (usage constraint ${id}): ${used} are used or held, and this request needs ${more}. Repeat it after ${resets_at}, or ask for a larger max_value: PUT /v1/agents/{id}/usage-constraints/{cid}.`,
    { limit: max_value, resets_at: new Date(resets_at), extra: { usage_constraint: cap } },
  );
}

const plain = new Intl.NumberFormat('en', { useGrouping: false, maximumFractionDigits: 9 });

/**
 * The refusal (429) at a limit that is used up until a time, which no client repeats by itself.
 * Limit and time are members of the answer too: a gateway makes its own headers of them.
 */
export function usedUp(
  code: ErrorCode,
  message: string,
  { limit, resets_at, extra, ...details }: ErrorDetails & { limit: number; resets_at: Date },
): AppError {
  const told = { limit, resets_at, ...extra };
  return tooMany(code, message, { ...details, limit, resets_at, is_final: true, extra: told });
}

function noPrice({ provider, model }: PricedModel): string {
  return `There is no price for the model "${model}" of the provider "${provider}". A platform admin must set one: POST /v1/admin/model-pricing.`;
}

/** What a kind of stored thing is called in words. */
const nouns: Record<string, string> = {
  response: 'response',
  conversation: 'conversation',
  item: 'item of an answer',
  message: 'message',
  thread: 'thread',
  file: 'file',
  vector_store: 'vector store',
  container: 'container',
  audio: 'audio answer',
  cached_content: 'cached content',
};

/**
 * The refusal (404) of an id that is not the organization's. The same words for one that nobody
 * knows and one of another organization.
 */
export function unknownId(named: NamedId | undefined, param = 'stored_ids'): AppError {
  const { kind = '', id = '' } = named ?? {};
  return new AppError(
    'stored_id_unknown',
    `No ${nouns[kind] ?? 'stored thing'} of this caller is known under the id "${id}". Ids are known to those whose calls made them, for 30 days after their last use.`,
    { param, extra: { stored_id: { kind, id } } },
  );
}
