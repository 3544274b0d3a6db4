import type { ErrorCode } from '../errors';
import type { PricedModel } from './calls';

interface Refusal {
  code: string | null;
  param: string | null;
  cost_ticket: Record<string, unknown> | null;
}

/** What a person can do about each refusal that the ledger's functions return as a row. */
export const refusals: Record<string, { code: ErrorCode; message: string }> = {
  unknown_org: { code: 'invalid_field', message: 'org_id is not a known organization.' },
  not_of_organization: {
    code: 'invalid_field',
    message: 'This id does not belong to the organization org_id.',
  },
  invalid_credential: {
    code: 'invalid_credential',
    message: 'This key has expired or was revoked. Use a living key.',
  },
  model_not_priced: {
    code: 'model_not_priced',
    message:
      'A model of this request has no price. A platform admin must set one: POST /v1/admin/model-pricing.',
  },
  exchange_rate_missing: {
    code: 'exchange_rate_missing',
    message:
      "There is no exchange rate for the organization's currency. A platform admin must set one: PUT /v1/admin/exchange-rates.",
  },
  amount_too_large: {
    code: 'amount_too_large',
    message: 'The cost would be above 9000000000 of the currency.',
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
      'No wallet covers the estimated cost. Top up by the shortfall of the cost ticket, or ask for its approval.',
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
  ticket_denied: { code: 'ticket_denied', message: 'This cost ticket was denied.' },
  ticket_redeemed: {
    code: 'ticket_redeemed',
    message: 'This cost ticket has paid for another call already. Send the request without it.',
  },
  ticket_expired: {
    code: 'ticket_expired',
    message: 'This cost ticket has expired. Send the request again for a new one.',
  },
  not_found: { code: 'not_found', message: 'No reservation was found under this id.' },
  price_not_frozen: {
    code: 'invalid_field',
    message: 'This provider and model were not part of the reserve.',
  },
};

/** The words of a refusal that say more than its code can. */
export function words(
  { code, param, cost_ticket }: Refusal,
  asked?: PricedModel,
): string | undefined {
  if (code === 'model_not_priced' && param === 'model' && asked) return noPrice(asked);
  if (code === 'ticket_denied' && cost_ticket?.note)
    return `This cost ticket was denied: ${cost_ticket.note}`;
  return undefined;
}

function noPrice({ provider, model }: PricedModel): string {
  return `There is no price for the model "${model}" of the provider "${provider}". A platform admin must set one: POST /v1/admin/model-pricing.`;
}
