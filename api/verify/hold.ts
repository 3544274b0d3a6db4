import { createHash, randomUUID } from 'node:crypto';
import { type Answer, ask, Fault, Left, read } from './client';
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
  const call: Call = { api_url, platform_key, key, org_id, request_id };
  const url = `${api_url}/v1/gateway/wallets/reserve`;
  const reserve = ask('POST', url, {
    key,
    body: {
      ...{ org_id, key_id, user_id, team_id, agent_id, request_id },
      ...{ provider: price.provider, model: price.model },
      ...{ estimated_prompt_tokens: 1_000, max_completion_tokens: 1 },
      request_body_hash: `sha256:${createHash('sha256').update(request_id).digest('hex')}`,
      trace_label: request_id,
    },
  });
  const { status, body: hold } = await reserve.catch(async (error: Error) => {
    await takeBack(call, error.message);
    throw error;
  });
  await denyTicketOf(hold, call);
  if (status !== 200 || hold?.reservation_id === undefined) {
    const words = `POST ${url} answers ${status}: ${hold?.error?.message ?? 'no words'}`;
    // A proxy may have given up on what the API then did.
    if (status === 200 || status >= 500) await takeBack(call, words);
    throw new Fault(words);
  }
  const { reservation_id, wallet_id } = hold;
  await cancel(call).catch((error: Error) => takeBack(call, error.message));
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

/** The one call of this check. */
interface Call {
  api_url: string | undefined;
  platform_key: string;
  key: string;
  org_id: string;
  request_id: string;
}

/** By the call's own id: it then never holds, whether its reserve has arrived or arrives yet. */
function cancel({ api_url, key, org_id, request_id }: Call): Promise<unknown> {
  const body = { org_id, request_id, outcome: 'canceled' };
  return read('POST', `${api_url}/v1/gateway/wallets/settle`, { key, body });
}

/**
 * Takes back what a call may have made whose answer nobody has: a hold, or a cost ticket. Throws a
 * Left if that fails too.
 */
async function takeBack(call: Call, why: string): Promise<void> {
  const { api_url, platform_key: key, org_id, request_id } = call;
  try {
    await cancel(call).catch(() => cancel(call));
    const open = `${api_url}/v1/cost-tickets?org_id=${org_id}&status=open`;
    const { tickets } = await read('GET', open, { key });
    for (const ticket of tickets)
      if (ticket.trace_label === request_id) await denyTicketOf({ cost_ticket: ticket }, call);
  } catch (error) {
    throw new Left(
      `${why} A hold or a cost ticket of the call ${request_id} may be left, until its life is over: ${(error as Error).message}`,
    );
  }
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
