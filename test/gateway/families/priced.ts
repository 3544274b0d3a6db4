import { lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makePrice } from '../../support/ledger';
import { openScripted, type Scripted } from '../../support/upstream';

export const S = {
  input_per_1m: 10,
  output_per_1m: 40,
  cached_input_per_1m: 1,
  per_tool_call: 0.01,
};
const tiers = { flex: 0.5, priority: { input_per_1m: 20, output_per_1m: 80 } };
const models: Record<string, object> = {
  s: S,
  plain: { input_per_1m: 10, output_per_1m: 40 },
  kinds: { ...S, per_file_search: 0.0025, per_container: 0.03 },
  pictures: { ...S, image_output_per_1m: 40, image_input_per_1m: 10 },
  shown: { ...S, image_output_per_1m: 400, image_input_per_1m: 20 },
  long: {
    input_per_1m: 3,
    output_per_1m: 15,
    cached_input_per_1m: 0.3,
    cache_write_per_1m: 3.75,
    cache_write_1h_per_1m: 6,
    tiers: JSON.stringify([{ above_prompt_tokens: 200_000, input_per_1m: 6, output_per_1m: 22.5 }]),
  },
  tiered: { ...S, service_tiers: JSON.stringify(tiers), regions: JSON.stringify({ us: 1.1 }) },
};

/** A gateway before an upstream that plays back answers, with a price of each kind. */
export interface Priced {
  world: World;
  scripted: Scripted;
  /** The address of a gateway with targets of these shapes. */
  urlOf: (...shapes: ('openai' | 'anthropic')[]) => Promise<string>;
  /** What a call is charged in USD, by an upstream that answers this: JSON, or frames. */
  chargeOf: (address: string, body: object, answer: object | string[]) => Promise<number>;
  close: () => Promise<void>;
}

export async function openPriced(): Promise<Priced> {
  const world = await openWorld();
  const scripted = await openScripted();
  for (const provider of ['openai', 'anthropic'])
    for (const [model, price] of Object.entries(models))
      await makePrice(world.api.db, { provider, model, ...price });
  return {
    world,
    scripted,
    async urlOf(...shapes) {
      const targets = shapes.map((shape) => ({
        id: shape,
        provider: shape,
        shape,
        base_url: scripted.url,
        api_key_env: 'TEST_MODELS_KEY',
        models: Object.keys(models),
      }));
      return (await world.openGateway({ settings: { providers: { targets } } })).url;
    },
    async chargeOf(address, body, answer) {
      if (Array.isArray(answer)) scripted.play(answer);
      else scripted.play([JSON.stringify(answer)], 'application/json');
      const { status, text } = await post(address, world.key, body);
      expect({ status, text }).toMatchObject({ status: 200 });
      return Number((await lastCharge(world, world.org.org_id)).actual_cost_nanos) / 1e9;
    },
    async close() {
      await world.close();
      await scripted.close();
    },
  };
}

const message = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'Yes.' }],
};
export const told = { input_tokens: 1_000, output_tokens: 100, total_tokens: 1_100 };

/** A whole answer of Responses with these output items before its text. */
export function answerOf({
  output = [],
  ...more
}: { output?: object[] } & Record<string, unknown>) {
  const whole = { id: 'resp_1', object: 'response', status: 'completed', usage: told };
  return { ...whole, ...more, output: [...output, message] };
}
