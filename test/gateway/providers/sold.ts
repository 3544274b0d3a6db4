import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { blankPrice } from '../../../domain/ledger/pricing';
import { listen } from '../../../runtime/listen';
import type { Visit } from '../../../sandbox/providers/relay';
import { createProviderServer, type ProviderOptions } from '../../../sandbox/providers/server';
import {
  chat,
  gatewayKey,
  lastCharge,
  message,
  openWorld,
  post,
  type World,
} from '../../support/gateway';
import { makePrice } from '../../support/ledger';

// A gateway in front of the sandbox's providers, each of which checks what the real one would.

export let world: World;
export let url: string;
export let options: ProviderOptions;
export const visits: Visit[] = [];
let server: Server;
export let origin: string;
/** How far the clock of the providers is from that of the gateway, in ms. */
export const clock = { off_ms: 0 };

const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });

/** The models of each target; the public name is that of the target. */
export const targets = () => {
  const aws = { access_key_id_env: 'TEST_AWS_ID', secret_access_key_env: 'TEST_AWS_SECRET' };
  const google = { credentials_file_env: 'TEST_GOOGLE_FILE' };
  const azure = { kind: 'azure', auth: { key_env: 'TEST_AZURE_KEY' } };
  const claude = { upstream: 'eu.anthropic.claude-opus-5-5-v1:0', price_as: 'claude' };
  const arn = 'arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/claude/x1';
  const region = 'eu-west-1';
  return [
    {
      id: 'aws-claude',
      kind: 'bedrock',
      region,
      base_url: `${origin}/bedrock`,
      auth: { aws },
      models: [
        { name: 'aws-claude', ...claude },
        { ...claude, name: 'aws-arn', upstream: arn },
      ],
    },
    {
      id: 'aws-key',
      kind: 'bedrock',
      region,
      base_url: `${origin}/bedrock`,
      auth: { key_env: 'TEST_BEDROCK_KEY' },
      models: [{ name: 'aws-key', ...claude }],
    },
    {
      id: 'aws-chat',
      kind: 'bedrock',
      shape: 'openai',
      region,
      base_url: `${origin}/bedrock/openai/v1`,
      auth: { aws },
      models: [{ name: 'aws-chat', upstream: 'openai.gpt-oss-120b-1:0', price_as: 'chat' }],
    },
    {
      id: 'aws-converse',
      kind: 'bedrock',
      shape: 'converse',
      region,
      base_url: `${origin}/bedrock`,
      auth: { aws },
      models: [
        { name: 'aws-converse', upstream: 'amazon.nova-pro-v1:0', price_as: 'chat' },
        { ...claude, name: 'aws-converse-arn', upstream: arn },
      ],
    },
    {
      id: 'gcp-claude',
      kind: 'vertex',
      shape: 'anthropic',
      project: 'acme-1',
      location: 'global',
      base_url: `${origin}/vertex/v1`,
      auth: { google },
      models: [{ name: 'gcp-claude', upstream: 'claude-opus-5-5@20260101', price_as: 'claude' }],
    },
    {
      id: 'gcp-chat',
      kind: 'vertex',
      shape: 'openai',
      project: 'acme-1',
      location: 'europe-west4',
      base_url: `${origin}/vertex/v1`,
      auth: { google },
      models: [{ name: 'gcp-chat', upstream: 'google/gemini-3.8-flash', price_as: 'chat' }],
    },
    {
      id: 'gcp-native',
      kind: 'vertex',
      shape: 'gemini',
      project: 'acme-1',
      location: 'global',
      base_url: `${origin}/vertex/v1`,
      auth: { google },
      models: [{ name: 'gcp-native', upstream: 'gemini-2.5-flash', price_as: 'chat' }],
    },
    {
      id: 'gemini-native',
      kind: 'gemini',
      shape: 'gemini',
      base_url: `${origin}/gemini/v1beta`,
      auth: { key_env: 'TEST_MODELS_KEY' },
      models: [{ name: 'gemini-native', upstream: 'gemini-3.8-flash', price_as: 'chat' }],
    },
    {
      ...azure,
      id: 'az',
      base_url: `${origin}/azure/openai/v1`,
      models: [{ name: 'az', upstream: 'prod-54', price_as: 'chat' }],
    },
    {
      ...azure,
      id: 'az-old',
      api_version: '2024-10-21',
      base_url: `${origin}/azure/openai`,
      models: [{ name: 'az-old', upstream: 'prod-54', price_as: 'chat' }],
    },
    {
      ...azure,
      id: 'foundry',
      shape: 'anthropic',
      base_url: `${origin}/azure/anthropic`,
      models: [{ name: 'foundry', upstream: 'claude-opus-5-5', price_as: 'claude' }],
    },
    ...['mistral', 'gemini'].map((kind) => ({
      id: kind,
      kind,
      base_url: kind === 'gemini' ? `${origin}/gemini/v1beta/openai` : `${origin}/mistral/v1`,
      auth: { key_env: 'TEST_MODELS_KEY' },
      models: [{ name: kind, upstream: `${kind}-large`, price_as: 'chat' }],
    })),
  ];
};

// Files of tests share the variables of their process.
let before: NodeJS.ProcessEnv;

beforeAll(async () => {
  before = { ...process.env };
  world = await openWorld();
  const keys = new Map([['AKIATEST', { secret: 'aws-secret' }]]);
  const bearers = new Set<string>();
  options = {
    models_url: world.models_url,
    keys: new Set(['upstream-secret']),
    sts: {
      keys,
      role_arn: 'arn:aws:iam::123456789012:role/svc',
      external_id: 'the-external-id',
      lifetime_s: 3_600,
      now: () => new Date(),
    },
    entra: {
      tenant: 'tenant-1',
      client_id: 'app-1',
      client_secret: 'entra-secret',
      assertion: 'eyJ.of.cluster',
      scope: 'https://cognitiveservices.azure.com/.default',
      lifetime_s: 3_600,
      bearers,
      machine: { secret: 'machine-secret', is_down: false },
    },
    bedrock: {
      keys,
      region: 'eu-west-1',
      bearers: new Set(['bedrock-key']),
      now: () => new Date(Date.now() + clock.off_ms),
    },
    vertex: {
      public_key: publicKey,
      client_email: 'svc@acme-1.iam.gserviceaccount.com',
      project: 'acme-1',
      lifetime_s: 3_600,
      now: () => Date.now() + clock.off_ms,
      tokens: new Map(),
      is_down: false,
    },
    azure: {
      keys: new Set(['azure-key']),
      bearers,
      deployments: new Set(['prod-54', 'claude-opus-5-5']),
    },
  };
  server = createProviderServer(options, (visit) => visits.push(visit));
  origin = `http://127.0.0.1:${await listen(server, 0)}`;
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'svc-google-')), 'account.json');
  const account = {
    type: 'service_account',
    client_email: options.vertex.client_email,
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }),
    token_uri: `${origin}/token`,
  };
  writeFileSync(file, JSON.stringify(account));
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_STS: `${origin}/sts`,
    TEST_EXTERNAL_ID: 'the-external-id',
    TEST_ENTRA_SECRET: 'entra-secret',
    TEST_AWS_ID: 'AKIATEST',
    TEST_AWS_SECRET: 'aws-secret',
    TEST_BEDROCK_KEY: 'bedrock-key',
    TEST_AZURE_KEY: 'azure-key',
    TEST_GOOGLE_FILE: file,
    GATEWAY_AMBIENT_ORIGINS: origin,
  });
  for (const provider of ['bedrock', 'vertex', 'azure', 'mistral', 'gemini']) {
    const price = { ...blankPrice, tiers: null, provider };
    const claude = {
      input_per_1m: 3,
      output_per_1m: 15,
      cached_input_per_1m: 0.3,
      cache_write_per_1m: 3.75,
      per_web_search: 0.01,
    };
    await makePrice(world.api.db, { ...price, ...claude, model: 'claude' });
    await makePrice(world.api.db, { ...price, model: 'chat', input_per_1m: 2, output_per_1m: 8 });
  }
  url = await openSold();
});
afterAll(async () => {
  for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
  Object.assign(process.env, before);
  await world.close();
  server.closeAllConnections();
  server.close();
});

/** A gateway with these targets. */
export async function openSold(
  more: object = {},
  rows: object[] = targets(),
  ways: object = {},
): Promise<string> {
  const providers = { targets: rows, ...ways };
  return (await world.openGateway({ settings: { providers, ...more } })).url;
}

/** Asks a target on its own wire. */
export const newCaller = () => gatewayKey(world.api, world.org.org_id);

export async function ask(
  model: string,
  text: string,
  more: {
    stream?: boolean;
    at?: string;
    body?: object;
    headers?: Record<string, string>;
    caller?: string;
  } = {},
) {
  const caller = more.caller ?? (await newCaller());
  const { stream = false, at = url } = more;
  const is_message = /claude|foundry|aws-key|aws-arn/.test(model);
  const fields = { model, ...(stream ? { stream } : {}), ...more.body };
  const body = is_message ? message(text, fields) : chat(text, fields);
  const chat_path = /native|converse/.test(model)
    ? '/v1/unified/chat/completions'
    : '/v1/chat/completions';
  const path_of = is_message ? '/v1/messages' : chat_path;
  visits.length = 0;
  const answer = await post(`${at}${path_of}`, caller, body, more.headers);
  return { ...answer, charge: () => lastCharge(world, world.org.org_id) };
}

/** A gateway whose warnings and errors are kept. */
export async function openTold(rows: object[] = targets()) {
  const made = await world.openGateway({ settings: { providers: { targets: rows } } });
  const told: unknown[][] = [];
  const keep = (...given: unknown[]) => void told.push(given);
  Object.assign(made.gateway.log, { info: keep, warn: keep, error: keep });
  return { made, told };
}
