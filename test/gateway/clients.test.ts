import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import Anthropic1 from '@anthropic-ai/sdk';
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
import Anthropic0 from 'anthropic-0';
import OpenAI6 from 'openai';
import OpenAI7 from 'openai-7';
import {
  arrivals,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  openWorld,
  type World,
} from '../support/gateway';
import { makeOrg } from '../support/ledger';

// Each official client, unchanged but for its address and key.

let world: World;
let poor: string;

beforeAll(async () => {
  world = await openWorld();
  poor = await gatewayKey(world.api, (await makeOrg(world.api.db)).org_id);
});
beforeEach(() => forgetArrivals(world.models_url));
afterAll(() => world.close());

/** How a client reads an answer, a stream and a refusal. */
interface Client {
  say(key: string, content: string): Promise<string>;
  stream(key: string, content: string): Promise<string>;
}

const model = 'gpt-4o-mini';
const claude = 'claude-sonnet-4-5';

function openai(Of: typeof OpenAI6 | typeof OpenAI7): Client {
  const client = (apiKey: string) => new Of({ baseURL: `${world.url}/v1`, apiKey }) as OpenAI6;
  const body = (content: string) => ({ model, messages: [{ role: 'user' as const, content }] });
  return {
    async say(key, content) {
      const { choices } = await client(key).chat.completions.create(body(content));
      return choices[0]?.message.content ?? '';
    },
    async stream(key, content) {
      const stream = client(key).chat.completions.stream(body(content));
      return (await stream.finalContent()) ?? '';
    },
  };
}

function responses(Of: typeof OpenAI6 | typeof OpenAI7): Client {
  const client = (apiKey: string) => new Of({ baseURL: `${world.url}/v1`, apiKey }) as OpenAI6;
  return {
    say: async (key, input) => (await client(key).responses.create({ model, input })).output_text,
    async stream(key, input) {
      let text = '';
      for await (const event of await client(key).responses.create({ model, input, stream: true }))
        if (event.type === 'response.output_text.delta') text += event.delta;
      return text;
    },
  };
}

function anthropic(Of: typeof Anthropic1 | typeof Anthropic0): Client {
  const client = (apiKey: string) => new Of({ baseURL: world.url, apiKey }) as Anthropic1;
  const body = (content: string) => ({
    model: claude,
    max_tokens: 64,
    messages: [{ role: 'user' as const, content }],
  });
  return {
    async say(key, content) {
      const [block] = (await client(key).messages.create(body(content))).content;
      return block?.type === 'text' ? block.text : '';
    },
    stream: (key, content) => client(key).messages.stream(body(content)).finalText(),
  };
}

type Model = Parameters<typeof generateText>[0]['model'];

function aiSdk(modelOf: (key: string) => Model): Client {
  return {
    say: async (key, prompt) => (await generateText({ model: modelOf(key), prompt })).text,
    async stream(key, prompt) {
      const failed: unknown[] = [];
      const onError = ({ error }: { error: unknown }) => void failed.push(error);
      const stream = streamText({ model: modelOf(key), prompt, onError });
      // If a stream fails, its text says only that there is none.
      const text = await Promise.resolve(stream.text).catch((error) => {
        throw failed[0] ?? error;
      });
      return text;
    },
  };
}

const baseURL = () => `${world.url}/v1`;
const clients: [string, Client][] = [
  ['openai 6, chat', openai(OpenAI6)],
  ['openai 7, chat', openai(OpenAI7)],
  ['openai 6, responses', responses(OpenAI6)],
  ['openai 7, responses', responses(OpenAI7)],
  ['anthropic 0', anthropic(Anthropic0)],
  ['anthropic 1', anthropic(Anthropic1)],
  ['AI SDK, chat', aiSdk((apiKey) => createOpenAI({ baseURL: baseURL(), apiKey }).chat(model))],
  [
    'AI SDK, responses',
    aiSdk((apiKey) => createOpenAI({ baseURL: baseURL(), apiKey }).responses(model)),
  ],
  ['AI SDK, messages', aiSdk((apiKey) => createAnthropic({ baseURL: baseURL(), apiKey })(claude))],
];

test.each(clients)('%s: an answer and a stream arrive and are charged', async (_, client) => {
  for (const way of ['say', 'stream'] as const) {
    expect(await client[way](world.key, 'Hello there')).toContain('Hello there');
    const charge = await lastCharge(world, world.org.org_id);
    expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  }
});

test.each(clients)('%s: a refusal is an error with its status, said once', async (_, client) => {
  for (const way of ['say', 'stream'] as const) {
    const unknown = await client[way]('svc_gk_nobody', 'Hello').catch((error) => error);
    expect(statusOf(unknown)).toBe(401);
    const unpaid = await client[way](poor, 'Hello').catch((error) => error);
    expect(statusOf(unpaid)).toBe(402);
    expect(JSON.stringify(detailsOf(unpaid))).toMatch(/"shortfall":/);
  }
  expect(await arrivals(world.models_url)).toEqual([]);
});

function statusOf(error: { status?: number; statusCode?: number }): number | undefined {
  return error.status ?? error.statusCode;
}

function detailsOf(error: { error?: unknown; responseBody?: unknown }): unknown {
  return error.error ?? JSON.parse(String(error.responseBody));
}

test.each([
  ['chat', (key: string) => createOpenAI({ baseURL: baseURL(), apiKey: key }).chat(model)],
  ['messages', (key: string) => createAnthropic({ baseURL: baseURL(), apiKey: key })(claude)],
])('the AI SDK over %s calls a tool and goes on with its result', async (_, modelOf) => {
  const weather = tool({
    description: 'The weather of a city',
    inputSchema: jsonSchema<{ city: string }>({
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    }),
    execute: async ({ city }) => `Sunny in ${city}`,
  });
  const { steps } = await generateText({
    model: modelOf(world.key),
    prompt: 'How is the weather in Rome?',
    tools: { weather },
    stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? 'required' : 'none' }),
  });
  expect(steps[0]?.toolCalls.map(({ toolName }) => toolName)).toEqual(['weather']);
  expect(JSON.stringify(steps[0]?.toolResults)).toContain('Sunny in');
});
