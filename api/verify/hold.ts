import { createHash, randomUUID } from 'node:crypto';
import { type Answer, ask, Fault, read } from './client';
import type { Deployment } from './deployment';
import { NAME } from './probe';

/** A hold and its cancel: two entries that add up to nothing, and the wallet is as it was. */
export async function cancelAHold({ apis, platform_key, probe }: Deployment): Promise<string> {
  const api_url = apis[0]?.url;
  const key = await probe.controlPlaneKey();
  const { org_id, key_id, user_id, team_id, agent_id } = await probe.owner();
  const { models } = await read('GET', `${api_url}/v1/admin/model-pricing`, { key: platform_key });
  const price = models.find(isPlain);
  if (price === undefined) throw new Fault('No model has a price by tokens, so nothing is held.');
  const request_id = `${NAME}-${randomUUID()}`;
  const url = `${api_url}/v1/gateway/wallets/reserve`;
  const { status, body: hold } = await ask('POST', url, {
    key,
    body: {
      ...{ org_id, key_id, user_id, team_id, agent_id, request_id },
      ...{ provider: price.provider, model: price.model },
      ...{ estimated_prompt_tokens: 1_000, max_completion_tokens: 1 },
      request_body_hash: `sha256:${createHash('sha256').update(request_id).digest('hex')}`,
      trace_label: request_id,
    },
  });
  await denyTicketOf(hold, { api_url, platform_key });
  if (status !== 200)
    throw new Fault(`POST ${url} answers ${status}: ${hold?.error?.message ?? 'no words'}`);
  const { reservation_id, wallet_id } = hold;
  const cancel = () =>
    read('POST', `${api_url}/v1/gateway/wallets/settle`, {
      key,
      body: { org_id, reservation_id, outcome: 'canceled' },
    });
  // One that stays is given back when its life is over.
  await cancel().catch(cancel);
  // By its id alone: other calls of a busy wallet have written more than a page since.
  const list = `${api_url}/v1/admin/wallets/${wallet_id}/transactions?request_id=${request_id}`;
  const { transactions } = await read('GET', list, { key: platform_key });
  const own = transactions.filter((entry: Entry) => entry.reservation_id === reservation_id);
  const sum = own.reduce((all: number, { amount }: Entry) => all + amount, 0);
  if (own.length !== 2 || sum !== 0)
    throw new Fault(
      `The canceled hold ${reservation_id} left ${own.length} entries that add up to ${sum}, not two that add up to 0.`,
    );
  return `a hold of ${hold.reserved_amount} ${hold.currency} and its cancel left nothing`;
}

/** Closes the cost ticket that a refused call has opened, so that nobody decides on a check. */
export async function denyTicketOf(
  answer: Answer['body'],
  { api_url, platform_key: key }: { api_url: string | undefined; platform_key: string },
): Promise<void> {
  const ticket_id = answer?.cost_ticket?.id;
  if (typeof ticket_id !== 'string') return;
  const body = { reason: `A check of npm run ${NAME}: no call waits for it.` };
  await read('POST', `${api_url}/v1/cost-tickets/${ticket_id}/deny`, { key, body });
}

interface Entry {
  reservation_id: string | null;
  amount: number;
}

/** A price of one model by tokens. */
function isPlain({ model, input_per_1m }: { model: string; input_per_1m?: number | null }) {
  return !model.includes('*') && (input_per_1m ?? 0) > 0;
}
