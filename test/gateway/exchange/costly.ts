import { request } from 'undici';
import { lastCharge, openWorld, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

// Calls that ask for their cost.

export const ask = { 'x-svc-include-cost': 'true' };
export const streamed = { stream: true, stream_options: { include_usage: true } };

/** A world, and a gateway before an upstream that plays back answers. */
export interface Costs {
  world: World;
  scripted: Scripted;
  scripted_url: string;
  /** What the ledger has of the newest call, in nanos. */
  charge: () => Promise<bigint>;
  /** Fails unless a usage tells the cost of the newest call, to the nano, in lines that add up. */
  expectCost: (answer: { usage: Usage }) => Promise<void>;
  /** A streamed call with its trailers. */
  stream: (
    url: string,
    body: object,
    headers?: Record<string, string>,
  ) => Promise<{
    text: string;
    headers: Record<string, unknown>;
    trailers: Record<string, string>;
  }>;
  close: () => Promise<void>;
}

interface Usage {
  cost: number;
  cost_details: { cost: string; currency: string; lines: { what: string; amount: string }[] };
}

export async function openCosts(): Promise<Costs> {
  const world = await openWorld();
  const scripted = await openScripted();
  const targets = (['openai', 'anthropic'] as const).map((shape) => ({
    id: shape,
    provider: shape,
    shape,
    base_url: scripted.url,
    api_key_env: 'TEST_MODELS_KEY',
    models: ['priced', 'free'],
  }));
  const price = { model: 'priced', input_per_1m: 0.001, output_per_1m: 0.4 };
  for (const provider of ['openai', 'anthropic']) {
    await makePrice(world.api.db, { provider, ...price });
    await makePrice(world.api.db, { provider, model: 'free', free: true });
  }
  const { url: scripted_url } = await world.openGateway({ settings: { providers: { targets } } });
  const charge = async () => (await lastCharge(world, world.org.org_id)).actual_cost_nanos;
  return {
    world,
    scripted,
    scripted_url,
    charge,
    async expectCost({ usage: { cost, cost_details } }) {
      const nanos = await charge();
      expect(nanosOf(cost_details.cost)).toBe(nanos);
      expect(cost).toBe(Number(cost_details.cost));
      expect(cost_details.currency).toBe('USD');
      const amounts = cost_details.lines.map(({ amount }) => nanosOf(amount));
      expect(amounts.reduce((sum, amount) => sum + amount, 0n)).toBe(nanos);
      // What the sum lacks to the cost is a part of a billionth a line, or a line is wrong.
      const rest = cost_details.lines.find(({ what }) => what === 'rounding')?.amount ?? '0';
      expect(Math.abs(Number(rest))).toBeLessThan(1e-9 * cost_details.lines.length);
    },
    async stream(url, body, headers = ask) {
      const type = { 'content-type': 'application/json' };
      const answer = await request(url, {
        method: 'POST',
        headers: { ...type, authorization: `Bearer ${world.key}`, ...headers },
        body: JSON.stringify(body),
      });
      const text = await answer.body.text();
      const trailers = answer.trailers as Record<string, string>;
      return { text, headers: answer.headers, trailers };
    },
    async close() {
      await world.close();
      await scripted.close();
    },
  };
}

/** Nanos of a decimal text that has no more than nine decimals. */
export function nanosOf(text: string): bigint {
  const [units = '0', decimals = ''] = text.split('.');
  return BigInt(`${units}${decimals.padEnd(9, '0')}`);
}

/** An answer or a stream without the members that tell its cost. */
export function withoutCost(text: string): string {
  return text.replace(/,"cost":[0-9.]+,"cost_details":\{[^\n]*?\]\}(?=\})/, '');
}

/** The events of a stream that are JSON. */
export function events(text: string) {
  return [...text.matchAll(/^data: (\{.*)$/gm)].map(([, json = '']) => JSON.parse(json));
}
