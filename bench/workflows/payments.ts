import { randomUUID } from 'node:crypto';
import { Client, Connection, WithStartWorkflowOperation } from '@temporalio/client';
import { sandboxAccessB } from '../../sandbox/payments/b/provider';
import { NAMESPACE } from '../../sandbox/servers/temporal';
import type { BenchCluster } from '../cluster';
import { median } from '../load';
import type { Row } from '../row';
import { openShop, pages, type Shop, wish } from './shop';

const IN_FLIGHT = 8;
const SECONDS = 5;
const ROUNDS = 2;
const CREATES = 60;

/**
 * The cost of a top-up: whole sessions against a bare workflow on the same server, and the time
 * added to the provider's.
 */
export async function paymentRows(cluster: BenchCluster): Promise<Row[]> {
  const shop = await openShop(cluster, { buyers: IN_FLIGHT });
  try {
    return [await sessionsRow(shop), await createRow(shop)];
  } finally {
    await shop.stop();
  }
}

/**
 * Beside a workflow with the same two updates, each of which runs one activity that does nothing:
 * what no workflow that acts can be without. The same without activities is shown.
 */
async function sessionsRow(shop: Shop): Promise<Row> {
  const client = await bareClient(shop);
  const kinds = {
    whole: (lane: number) => wholeSession(shop, lane),
    bare: () => bareSession(client, true),
    idle: () => bareSession(client, false),
  };
  const rates: Record<string, number[]> = {};
  for (const run of Object.values(kinds)) await rate(run, 1);
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [kind, run] of Object.entries(kinds))
      rates[kind] = [...(rates[kind] ?? []), await rate(run, SECONDS)];
  await client.connection.close();
  const {
    whole = 0,
    bare = 0,
    idle = 0,
  } = Object.fromEntries(Object.entries(rates).map(([kind, all]) => [kind, median(all)]));
  return {
    measure: `whole top-ups a second, of a bare workflow with two updates, ${IN_FLIGHT} in flight`,
    figure: `${whole.toFixed(1)} of ${bare.toFixed(1)} (${idle.toFixed(1)} where the updates run no activity)`,
    ratio: whole / bare,
    bar: 'at least 0.6',
    isMet: whole / bare >= 0.6,
  };
}

/** One at a time, a few by each buyer: create-checkout, beside the call to the provider. */
async function createRow(shop: Shop): Promise<Row> {
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let count = 0; count < CREATES; count += 1) {
    const started_at = performance.now();
    await shop.ask('create-checkout', wish, count % IN_FLIGHT);
    const between = performance.now();
    await shop.provider('/v1/checkout/sessions', providerCheckout(), {
      authorization: `Bearer ${sandboxAccessB.secret_key}`,
    });
    ours.push(between - started_at);
    theirs.push(performance.now() - between);
  }
  const added = median(ours) - median(theirs);
  return {
    measure: "create-checkout, added to the provider's own time, one at a time",
    figure: `p50 ${added.toFixed(1)} ms added to ${median(theirs).toFixed(1)} ms`,
    isMet: true,
  };
}

function providerCheckout(): string {
  return new URLSearchParams({
    mode: 'payment',
    'line_items[0][price_data][currency]': 'usd',
    'line_items[0][price_data][unit_amount]': '5000',
    'line_items[0][price_data][product_data][name]': 'Top-up',
    'line_items[0][quantity]': '1',
    success_url: pages.return_url,
    cancel_url: pages.cancel_url,
  }).toString();
}

async function wholeSession({ ask, provider }: Shop, buyer: number): Promise<void> {
  const made = await ask('create-checkout', wish, buyer);
  const order = new URL(made.approval_url as string).pathname.split('/').at(-1) as string;
  await provider(`/sandbox/orders/${order}/pay`, '{}', { 'content-type': 'application/json' });
  const { payment_session_id, provider: name, checkout_state } = made;
  const body = {
    payment_session_id,
    provider: name,
    checkout_state,
    provider_session_token: order,
  };
  const answer = await ask('confirm-checkout', body, buyer);
  if (answer.status !== 'completed') throw new Error(`A top-up ended ${answer.status}.`);
}

async function bareClient({ temporal_address: address }: Shop): Promise<Client> {
  const connection = await Connection.connect({ address });
  return new Client({ connection, namespace: NAMESPACE });
}

async function bareSession(client: Client, hasActivities: boolean): Promise<void> {
  const workflowId = `bare-${randomUUID()}`;
  const startWorkflowOperation = new WithStartWorkflowOperation('bare', {
    workflowId,
    taskQueue: 'bare',
    args: [{ hasActivities }],
    workflowIdConflictPolicy: 'USE_EXISTING',
  });
  await client.workflow.executeUpdateWithStart('first', { startWorkflowOperation });
  await client.workflow.getHandle(workflowId).executeUpdate('second');
}

/** The rate a second, with so many in flight. */
async function rate(run: (lane: number) => Promise<void>, seconds: number): Promise<number> {
  const started_at = performance.now();
  let done = 0;
  const lane = async (_: unknown, number: number) => {
    while (performance.now() - started_at < seconds * 1_000) {
      await run(number);
      done += 1;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  return done / ((performance.now() - started_at) / 1_000);
}
