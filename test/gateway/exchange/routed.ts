import { createServer, type Server, type ServerResponse } from 'node:http';
import { listen } from '../../../runtime/listen';
import { openWorld, type World } from '../../support/gateway';

// A gateway in front of two upstreams that a test scripts.

export const path = '/v1/chat/completions';

/** An upstream that a test scripts, and that notes the models it is asked for. */
interface Upstream {
  url: string;
  asked: string[];
  answer: (res: ServerResponse, model: string) => void;
  server: Server;
}

export let world: World;
export let first: Upstream;
export let second: Upstream;

beforeAll(async () => {
  world = await openWorld();
  first = await openUpstream();
  second = await openUpstream();
});
beforeEach(() => {
  for (const upstream of [first, second]) {
    upstream.asked = [];
    upstream.answer = answered;
  }
});
afterAll(async () => {
  for (const { server } of [first, second]) {
    server.closeAllConnections();
    server.close();
  }
  await world.close();
});

async function openUpstream(): Promise<Upstream> {
  const upstream: Upstream = {
    url: '',
    asked: [],
    answer: answered,
    server: createServer(async (req, res) => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk as Buffer);
      const { model } = JSON.parse(Buffer.concat(chunks).toString()) as { model: string };
      upstream.asked.push(model);
      upstream.answer(res, model);
    }),
  };
  upstream.url = `http://127.0.0.1:${await listen(upstream.server, 0)}/v1`;
  return upstream;
}

export function answered(res: ServerResponse, model: string): void {
  const choices = [
    { index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' },
  ];
  const usage = { prompt_tokens: 1_000, completion_tokens: 64, total_tokens: 1_064 };
  const body = { id: 'x', object: 'chat.completion', created: 1, model, choices, usage };
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

export function refusedWith(status: number): Upstream['answer'] {
  return (res) => {
    const error = { message: `No: ${status}`, type: 'server_error', param: null, code: 'no' };
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
  };
}

interface Given {
  fallback?: object;
  circuit_breaker?: object;
  model_groups?: object[];
  first_models?: string[];
  second_models?: string[];
  second_url?: string;
}

/** A gateway whose first upstream is preferred by weight a million to one. */
export async function openRouted(given: Given = {}): Promise<string> {
  const target = (id: string, upstream_url: string, models: string[], weight: number) => ({
    id,
    provider: 'openai',
    shape: 'openai',
    api_key_env: 'TEST_MODELS_KEY',
    base_url: upstream_url,
    models,
    weight,
  });
  const { fallback = {}, circuit_breaker = { enabled: false }, model_groups = [] } = given;
  const targets = [
    target('first', first.url, given.first_models ?? ['gpt-4o-mini'], 1_000_000),
    target('second', given.second_url ?? second.url, given.second_models ?? ['gpt-4o-mini'], 1),
  ];
  const settings = { providers: { targets, fallback }, circuit_breaker, model_groups };
  return (await world.openGateway({ settings })).url;
}
