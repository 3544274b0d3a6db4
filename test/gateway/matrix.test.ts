import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { request } from 'undici';
import { newKey } from '../../domain/people/keys';
import { rolePermissions } from '../../domain/people/roles';
import * as tokens from '../../domain/people/tokens';
import { type Configuration, openConfiguration } from '../../gateway/configuration';
import { routes } from '../../gateway/routes';
import { gatewayKey, openWorld, type TestGateway, type World } from '../support/gateway';
import { makeKey, platformKey } from '../support/keys';
import { makeOrg } from '../support/ledger';
import { until } from '../support/until';

// Who may call which route of the gateway: every route of its table, called by everybody.

/** `none` is a key without a model, `poor` a key of an organization without money. */
const callers = [
  'nobody',
  'mistyped',
  'unknown',
  'access',
  'platform',
  'control',
  'revoked',
  'expired',
  'gateway',
  'none',
  'poor',
] as const;

const rows = new Map<string, string>(
  `
  GET /svc/health                     200 200 200 200 200 200 200 200 200 200 200
  GET /readyz                         200 200 200 200 200 200 200 200 200 200 200
  POST /svc/config/reload             401 401 401 403 403 200 401 401 401 401 401
  POST /v1/chat/completions           401 401 401 401 401 401 401 401 200 403 402
  POST /v1/unified/chat/completions   401 401 401 401 401 401 401 401 200 403 402
  POST /v1/responses                  401 401 401 401 401 401 401 401 200 403 402
  POST /v1/messages                   401 401 401 401 401 401 401 401 200 403 402
  POST /v1/messages/count_tokens      401 401 401 401 401 401 401 401 200 403 200
  POST /v1/embeddings                 401 401 401 401 401 401 401 401 200 403 402
  POST /v1/completions                401 401 401 401 401 401 401 401 200 403 402
  POST /v1/moderations                401 401 401 401 401 401 401 401 200 403 200
  POST /v1/audio/speech               401 401 401 401 401 401 401 401 200 403 402
  POST /v1/audio/transcriptions       401 401 401 401 401 401 401 401 415 415 415
  GET /v1/responses                   401 401 401 401 401 401 401 401 426 426 426
  GET /v1/responses/ws                401 401 401 401 401 401 401 401 426 426 426
  GET /v1/chat/completions/ws         401 401 401 401 401 401 401 401 426 426 426
  GET /mcp                            401 401 401 401 401 401 401 401 404 404 404
  GET /mcp/:id                        401 401 401 401 401 401 401 401 404 404 404
  POST /mcp                           401 401 401 401 401 401 401 401 404 404 404
  POST /mcp/:id                       401 401 401 401 401 401 401 401 404 404 404
  DELETE /mcp                         401 401 401 401 401 401 401 401 404 404 404
  DELETE /mcp/:id                     401 401 401 401 401 401 401 401 404 404 404
  GET /v1/key                         401 401 401 401 401 401 401 401 200 200 200
  GET /v1/models                      401 401 401 401 401 401 401 401 200 200 200
  GET /v1/models/:id                  401 401 401 401 401 401 401 401 200 403 200
  GET /v1/unified/models/:id          401 401 401 401 401 401 401 401 200 403 200
  GET /v1/unified/models              401 401 401 401 401 401 401 401 200 200 200
`
    .trim()
    .split(/\n\s*/)
    .map((line) => line.split(/ {2,}/) as [string, string]),
);

// Beside the table: what the app answers itself.
const own = ['GET /svc/health', 'GET /readyz', 'POST /svc/config/reload'];
const names = [...own, ...routes.map(({ method, path }) => `${method} ${path}`)];

const model = 'gpt-4o-mini';
const messages = [{ role: 'user', content: 'Hello' }];
const claude = { model: 'claude-sonnet-4-5', max_tokens: 5, messages };
const bodies: Record<string, object> = {
  '/v1/chat/completions': { model, messages },
  '/v1/unified/chat/completions': { model, messages },
  '/v1/responses': { model, input: 'Hello' },
  '/v1/messages': claude,
  '/v1/messages/count_tokens': { model: claude.model, messages },
  '/v1/embeddings': { model: 'text-embedding-3-small', input: 'Hello' },
  '/v1/completions': { model, prompt: 'Hello' },
  '/v1/moderations': { model: 'omni-moderation-latest', input: 'Hello' },
  '/v1/audio/speech': { model: 'gpt-4o-mini-tts', input: 'Hello', voice: 'alloy' },
};

let world: World;
/** A gateway whose file is read again. */
let reloading: TestGateway;
let configuration: Configuration;
let folder: string;
const keys: Record<string, string | undefined> = {};

beforeAll(async () => {
  world = await openWorld();
  const { api, org, key } = world;
  const { db } = api;
  const { org_id } = org;
  keys.gateway = key;
  keys.mistyped = `${key.slice(0, -1)}${key.endsWith('A') ? 'B' : 'A'}`;
  keys.unknown = await newKey('gateway');
  keys.access = await makeKey(db, org_id, { scopes: rolePermissions.owner });
  keys.platform = await platformKey(db);
  keys.control = world.control_plane_token;
  keys.revoked = await gatewayKey(api, org_id, { name: 'revoked' });
  await tokens.revoke(db, org_id, await tokens.find(db, org_id, 'revoked'));
  keys.expired = await gatewayKey(api, org_id, { name: 'expired' });
  await db('tokens')
    .where({ name: 'expired' })
    .update({ expires_at: new Date(0) });
  keys.none = await gatewayKey(api, org_id, { allowed_models: [] });
  keys.poor = await gatewayKey(api, (await makeOrg(db)).org_id);
});

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'svc-matrix-'));
  const file = path.join(folder, 'gateway.yaml');
  const target = { id: 'a', provider: 'openai', shape: 'openai', models: [model] };
  const reached = { base_url: `${world.models_url}/v1`, api_key_env: 'TEST_MODELS_KEY' };
  writeFileSync(file, JSON.stringify({ providers: { targets: [{ ...target, ...reached }] } }));
  reloading = await world.openGateway();
  configuration = openConfiguration(reloading.gateway, { file, poll_ms: 1_000 });
  reloading.configuration = configuration;
});

afterAll(async () => {
  await configuration.close();
  rmSync(folder, { recursive: true });
  await world.close();
});

test('every route of the table has a row, and no row is left over', () => {
  expect([...rows.keys()].sort()).toEqual([...names].sort());
});

test.each(names)('%s answers each caller as its row says', async (name) => {
  const seen: number[] = [];
  for (const caller of callers) {
    let status = 0;
    // A probe that takes a second says no: a busy machine is asked again.
    await until(async () => {
      status = await statusOf(name, keys[caller]);
      return name !== 'GET /readyz' || status === 200;
    });
    seen.push(status);
  }
  expect([name, seen.join(' ')]).toEqual([name, rows.get(name)]);
});

async function statusOf(name: string, key: string | undefined): Promise<number> {
  const [method = '', at = ''] = name.split(' ');
  const body = method === 'POST' ? JSON.stringify(bodies[at] ?? {}) : null;
  const answer = await request(
    `${at.startsWith('/svc/config') ? reloading.url : world.url}${at.replace(':id', model)}`,
    {
      method: method as 'GET',
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === null ? {} : { 'content-type': 'application/json' }),
      },
      body,
    },
  );
  await answer.body.dump();
  return answer.statusCode;
}
