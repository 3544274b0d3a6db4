import {
  chat,
  lastCharge,
  message,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';
import { openScripted, type Scripted } from '../../support/upstream';
import { encode, good } from '../families/sound-forms';

// A gateway all of whose families are served by one upstream that a test scripts.

export let world: World;
export let upstream: Scripted;
let url: string;

beforeAll(async () => {
  world = await openWorld();
  upstream = await openScripted();
  ({ url } = await openScriptedGateway({}));
});
afterAll(async () => {
  await world.close();
  await upstream.close();
});

const openai_models = [
  'gpt-4o-mini',
  'o4-mini',
  'text-embedding-3-small',
  'omni-moderation-latest',
  'whisper-1',
  'gpt-4o-mini-tts',
];

function targets() {
  const target = { api_key_env: 'TEST_MODELS_KEY', base_url: upstream.url };
  return [
    {
      ...target,
      id: 'scripted',
      provider: 'openai',
      shape: 'openai',
      base_url: `${upstream.url}/v1`,
      models: openai_models,
    },
    {
      ...target,
      id: 'scripted-messages',
      provider: 'anthropic',
      shape: 'anthropic',
      models: ['claude-sonnet-4-5'],
    },
  ];
}

export function openScriptedGateway(settings: object): Promise<TestGateway> {
  return world.openGateway({ settings: { providers: { targets: targets() }, ...settings } });
}

type Body = Record<string, unknown>;

const speech = { model: 'gpt-4o-mini-tts', voice: 'alloy', input: 'Hello' };

/** One request of each family. */
export const requests = {
  chat: ['/v1/chat/completions', chat('Hello')],
  'chat, reasoning': ['/v1/chat/completions', chat('Hello', { model: 'o4-mini' })],
  completions: ['/v1/completions', { model: 'gpt-4o-mini', prompt: 'Hello', max_tokens: 64 }],
  unified: ['/v1/unified/chat/completions', chat('Hello', { model: 'claude-sonnet-4-5' })],
  responses: ['/v1/responses', { model: 'gpt-4o-mini', input: 'Hello', max_output_tokens: 64 }],
  messages: ['/v1/messages', message('Hello')],
  embeddings: ['/v1/embeddings', { model: 'text-embedding-3-small', input: 'Hello' }],
  moderations: ['/v1/moderations', { model: 'omni-moderation-latest', input: 'Hello' }],
  speech: ['/v1/audio/speech', speech],
} as const satisfies Record<string, readonly [string, Body]>;

export type Name = keyof typeof requests;
export const names = Object.keys(requests) as Name[];
export const streaming = ['chat', 'completions', 'unified', 'responses', 'messages'] as const;

/** Asks a family, and waits for its charge. */
export async function ask(name: Name, more: Body = {}) {
  const [path, body] = requests[name];
  const answer = await post(url + path, world.key, { ...body, ...more });
  return { ...answer, charge: await lastCharge(world, world.org.org_id) };
}

/** Sends a form with a sound, and waits for its charge. */
export async function transcribe(parts = good) {
  const form = encode(parts);
  const answer = await post(`${url}/v1/audio/transcriptions`, world.key, form.toString('latin1'), {
    'content-type': 'multipart/form-data; boundary=b0undary',
  });
  return { ...answer, charge: await lastCharge(world, world.org.org_id) };
}
