import { randomUUID } from 'node:crypto';
import { until } from '../support/until';
import { callerOf, type Part, type Seeded, type Tenant, topUp } from './world';

/** One call of a model; the sandbox's answer repeats its words. */
export async function ask(
  gateway: Part,
  { gateway: key }: Tenant,
  {
    words = randomUUID(),
    stream = false,
    headers = {},
  }: { words?: string; stream?: boolean; headers?: Record<string, string> } = {},
) {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...headers,
    },
    body: JSON.stringify({
      model: 'gpt-4o-mini',
      messages: [{ role: 'user', content: `Say ${words}.` }],
      max_tokens: 64,
      stream,
    }),
  });
  return { words, status: response.status, text: await response.text() };
}

/** The entries of calls in the wallet of an organization, by the reservation that they are of. */
export async function entriesOf(api: Part, { billing: key }: Tenant) {
  const get = async (at: string) => (await callerOf(api)('get', at, { key })).body;
  const [wallet] = (await get('/v1/wallets')).wallets;
  const entries = new Map<string, string[]>();
  const at = `/v1/wallets/${wallet.wallet_id}/transactions?per_page=200`;
  for (const { reservation_id: id, type } of (await get(at)).transactions)
    if (id !== null) entries.set(id, [type, ...(entries.get(id) ?? [])]);
  return entries;
}

/** What runs is one call more in the ledger, held and settled once, and its event arrives. */
export async function requireOneBill<Result>(
  api: Part,
  tenant: Tenant,
  run: () => Promise<Result>,
): Promise<Result> {
  const before = await entriesOf(api, tenant);
  const since = new Date().toISOString();
  const result = await run();
  const added = async () => [...(await entriesOf(api, tenant))].filter(([id]) => !before.has(id));
  await until(async () => (await added())[0]?.[1].length === 2);
  expect(await added()).toEqual([[expect.any(String), ['reservation', 'settlement']]]);
  const at = `/v1/events?org_id=${tenant.org_id}&since=${since}`;
  await until(async () => {
    const { events } = (await callerOf(api)('get', at, { key: tenant.billing })).body;
    return events.some(({ type }: { type: string }) => type === 'request.completed');
  });
  return result;
}

export async function openTickets(api: Part, { billing }: Tenant) {
  const answer = await callerOf(api)('get', '/v1/cost-tickets?status=open', { key: billing });
  return answer.body.tickets as { id: string; shortfall: number }[];
}

/** Exactly what the one open ticket lacks, so that the next call is short again. */
async function payTicket(api: Part, { platform, poor }: Seeded): Promise<void> {
  const [ticket] = await openTickets(api, poor);
  await topUp(api, platform, poor, ticket?.shortfall as number);
}

/**
 * A gateway and an API of two releases do what calls need: priced, streamed, held until there is
 * money, refused with a ticket and redeemed with it; each is billed once and has its events.
 */
export async function requireCalls(gateway: Part, api: Part, seeded: Seeded): Promise<void> {
  const { rich, poor } = seeded;
  const priced = await requireOneBill(api, rich, () => ask(gateway, rich));
  expect([priced.status, priced.text]).toEqual([200, expect.stringContaining(priced.words)]);
  const streamed = await requireOneBill(api, rich, () => ask(gateway, rich, { stream: true }));
  expect([streamed.status, streamed.text]).toEqual([200, expect.stringMatching(/\[DONE\]\s*$/)]);

  const held = await requireOneBill(api, poor, async () => {
    const holding = ask(gateway, poor, { headers: { 'x-svc-hold-ms': '300000' } });
    await until(async () => (await openTickets(api, poor)).length === 1);
    await payTicket(api, seeded);
    return holding;
  });
  expect([held.status, held.text]).toEqual([200, expect.stringContaining(held.words)]);

  const words = randomUUID();
  const at_once = { words, headers: { 'x-svc-hold-ms': '0' } };
  const refused = await ask(gateway, poor, at_once);
  expect(refused.status).toBe(402);
  const { id } = JSON.parse(refused.text).error.cost_ticket;
  await payTicket(api, seeded);
  const redeemed = await requireOneBill(api, poor, () =>
    ask(gateway, poor, { words, headers: { 'x-svc-hold-ms': '0', 'x-svc-cost-ticket': id } }),
  );
  expect([redeemed.status, redeemed.text]).toEqual([200, expect.stringContaining(words)]);
  expect(await openTickets(api, poor)).toEqual([]);
}
