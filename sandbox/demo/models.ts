import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import { z } from 'zod';
import { covers } from '../../domain/prices/plan';
import { providerOf, servedModels, shapeOf, target } from '../../gateway/config/targets';
import type { Seeded } from './seed';

/**
 * The names in the printed calls: the provider, its chat model, and an embedding model if one is
 * served.
 */
interface DemoModels {
  provider: string;
  models: string[];
  /** The chat model has a price, so that a call of it is answered. */
  is_priced: boolean;
}

// The gateway, which runs with it, has read the whole file by its own rules.
const configuration = z.object({ providers: z.object({ targets: z.array(target) }) });
const catalog = z.object({
  models: z.array(z.object({ provider: z.string(), model: z.string() })),
});

// By name only: a configuration does not say what a model is for.
const not_chat = /embed|whisper|tts|audio|transcri|moderation|image|dall-e|rerank/i;

/**
 * Models that the gateway's configuration serves, priced ones first; those of the seed if it serves
 * no chat.
 */
export async function demoModels(
  config_file: string,
  api_url: string,
  seeded: Pick<Seeded, 'provider' | 'models'>,
): Promise<DemoModels> {
  const served = servedBy(readFileSync(config_file, 'utf8'));
  const answer = await fetch(`${api_url}/v1/model-pricing`);
  const prices = catalog.parse(await answer.json()).models;
  const isPriced = (one: Served) =>
    prices.some((price) => covers(price, { ...one, model: one.priced }));
  const first = (kind: Served[]) => kind.find(isPriced) ?? kind[0];
  const chat = first(served.filter(({ model }) => !not_chat.test(model)));
  if (chat === undefined) return { ...seeded, is_priced: true };
  const { provider } = chat;
  const embedding = first(
    served.filter((one) => one.provider === provider && /embed/i.test(one.model)),
  );
  const models = [chat.model, ...(embedding ? [embedding.model] : [])];
  return { provider, models, is_priced: isPriced(chat) };
}

interface Served {
  provider: string;
  /** As clients call it, and as the price list does. */
  model: string;
  priced: string;
}

/** The models that a configuration serves over the OpenAI wire, which the printed calls speak. */
function servedBy(text: string): Served[] {
  const { targets } = configuration.parse(parse(text)).providers;
  return targets
    .filter((row) => shapeOf(row) === 'openai')
    .flatMap((row) =>
      servedModels(row).map(({ name, priced }) => ({
        ...{ provider: providerOf(row), model: name, priced },
      })),
    );
}
