import { z } from 'zod';
import {
  beyondReach,
  closedToOwnKeys,
  keptVariables,
  ownKeyReach,
  placesOf,
} from '../../../gateway/config/reach';
import { parseGiven, parseSettings, settingsSchema } from '../../../gateway/config/settings';
import { loadConfig } from '../../../runtime/config';

const target = {
  id: 'a',
  provider: 'openai',
  shape: 'openai',
  base_url: 'https://api.openai.com/v1',
  api_key_env: 'TEST_MODELS_KEY',
  models: ['gpt-4o-mini'],
};

/** A configuration with one target, changed. */
const configured = (change: object = {}, more: object = {}) => ({
  providers: { targets: [{ ...target, ...change }] },
  ...more,
});
const settings = (change: object = {}, more: object = {}) =>
  settingsSchema.parse(configured(change, more));

const file = settings();
const nothing = { origins: [], variables: [] };
const env = {
  CONTROL_PLANE_URL: 'http://127.0.0.1:1',
  CONTROL_PLANE_TOKEN: 'x',
  GATEWAY_CONFIG: 'x',
};

/** The reach that the gateway's variables give. */
function reachOf(GATEWAY_ORIGINS: string, GATEWAY_SECRET_ENVS: string) {
  const config = loadConfig('gateway', { ...env, GATEWAY_ORIGINS, GATEWAY_SECRET_ENVS });
  return { origins: config.GATEWAY_ORIGINS, variables: config.GATEWAY_SECRET_ENVS };
}

test('what the file names the control plane may name too, for the same origin only', () => {
  expect(beyondReach(settings({ base_url: 'https://api.openai.com/v2' }), file, nothing)).toEqual(
    [],
  );
  for (const base_url of [
    'https://api.openai.com.evil.example/v1',
    'https://api.openai.com:8443/v1',
    'http://api.openai.com/v1',
    'http://127.0.0.1:8090/v1',
    'http://10.0.0.1/v1',
  ])
    expect(beyondReach(settings({ base_url }), file, nothing)).toEqual([
      expect.stringMatching(/^providers\.targets\[0\]: .* is neither in GATEWAY_ORIGINS nor/),
    ]);
});

test('a listed origin takes the variables that are bound to it, and no others', () => {
  const mistral = { base_url: 'https://api.mistral.ai/v1', api_key_env: 'MISTRAL_KEY' };
  const listed = reachOf('https://api.mistral.ai', 'MISTRAL_KEY@https://api.mistral.ai, OTHER_KEY');
  expect(beyondReach(settings(mistral), file, listed)).toEqual([]);
  for (const api_key_env of ['TEST_MODELS_KEY', 'OTHER_KEY', 'HOME', 'PATH'])
    expect(beyondReach(settings({ ...mistral, api_key_env }), file, listed)).toEqual([
      `providers.targets[0]: the control plane cannot use ${api_key_env} here. List it as ` +
        `${api_key_env}@https://api.mistral.ai in the gateway's variable GATEWAY_SECRET_ENVS, or ` +
        'name it so in its file.',
    ]);
  // No key at all is no secret.
  expect(beyondReach(settings({ ...mistral, api_key_env: undefined }), file, listed)).toEqual([]);
});

test.each([
  [
    'an MCP server',
    { mcp: { servers: [{ name: 'x', url: 'http://10.0.0.1/' }] } },
    'mcp.servers[0]',
  ],
  [
    'the keys of an issuer',
    {
      identity: {
        mode: 'signed_assertion',
        org_id: 'o',
        jwks_url: 'https://evil.example/keys',
        issuer: 'i',
        audience: 'a',
      },
    },
    'identity.jwks_url',
  ],
  [
    'a store of limits',
    { distributed_rate_limit: { enabled: true, store_url_env: 'HOME' } },
    'distributed_rate_limit.store_url_env',
  ],
  [
    'a receiver of traces',
    { observability: { otlp: { enabled: true, endpoint_env: 'HOME' } } },
    'observability.otlp.endpoint_env',
  ],
])('%s of the control plane must be named by the process too', (_what, more, path) => {
  expect(beyondReach(settings({}, more), file, nothing)).toEqual([
    expect.stringMatching(new RegExp(`^${path.replaceAll(/[.[\]]/g, '\\$&')}: `)),
  ]);
  expect(beyondReach(settings({}, more), settings({}, more), nothing)).toEqual([]);
});

test("a key that the file names for a model's provider is none for a tool's server there", () => {
  const server = {
    name: 'x',
    url: 'https://api.openai.com/v1/files',
    api_key_env: 'TEST_MODELS_KEY',
  };
  const asked = settings({}, { mcp: { servers: [server] } });
  expect(beyondReach(asked, file, nothing)).toHaveLength(1);
  expect(beyondReach(asked, asked, nothing)).toEqual([]);
  const listed = reachOf('', 'TEST_MODELS_KEY@https://api.openai.com');
  expect(beyondReach(asked, file, listed)).toEqual([]);
});

test('every variable and file that proves who asks is bound to the origin of its target', () => {
  const aws = { access_key_id_env: 'AWS_ID', secret_access_key_env: 'AWS_SECRET' };
  const ways: [object, string[]][] = [
    [{ key_env: 'MISTRAL_KEY' }, ['MISTRAL_KEY']],
    [{ key_file: '/run/secrets/mistral' }, ['/run/secrets/mistral']],
  ];
  for (const [auth, names] of ways) {
    const asked = settings({ api_key_env: undefined, auth });
    const told = beyondReach(asked, file, nothing);
    expect(told).toHaveLength(names.length);
    for (const [at, name] of names.entries()) expect(told[at]).toContain(name);
    expect(beyondReach(asked, asked, nothing)).toEqual([]);
    const elsewhere = settings({ api_key_env: undefined, auth, base_url: 'https://b.example/v1' });
    const origins = { ...nothing, origins: ['https://b.example'] };
    expect(beyondReach(elsewhere, asked, origins)).toHaveLength(names.length);
  }
  const signed = { id: 'b', kind: 'bedrock', region: 'eu-west-1', auth: { aws }, models: ['m'] };
  const places = placesOf(settingsSchema.parse({ providers: { targets: [signed] } }));
  expect(places.slice(0, 2)).toMatchObject([
    { url: expect.stringContaining('eu-west-1.amazonaws.com'), variable: 'AWS_ID' },
    { url: expect.stringContaining('eu-west-1.amazonaws.com'), variable: 'AWS_SECRET' },
  ]);
});

test('a sealed key goes to the host of its kind, and elsewhere only with its address', () => {
  const sealed = (change: object) =>
    settings({ api_key_env: undefined, auth: { key_sealed: 'openai-main' }, ...change });
  const origins = { ...nothing, origins: ['https://b.example'] };
  expect(beyondReach(sealed({ kind: 'openai' }), file, nothing)).toEqual([]);
  expect(beyondReach(sealed({ kind: 'openai', base_url: undefined }), file, nothing)).toEqual([]);
  const elsewhere = sealed({ kind: 'openai', base_url: 'https://b.example/v1' });
  const entry = 'sealed:openai-main@https://b.example';
  for (const asked of [elsewhere, sealed({ base_url: 'https://b.example/v1' })]) {
    expect(beyondReach(asked, file, origins)).toEqual([
      'providers.targets[0]: the control plane cannot send the sealed key openai-main to this ' +
        `address. List it as ${entry} in the gateway's variable GATEWAY_SECRET_ENVS, or name it so in its file.`,
    ]);
    expect(beyondReach(asked, file, reachOf('https://b.example', entry))).toEqual([]);
    expect(beyondReach(asked, asked, nothing)).toEqual([]);
    const others = 'sealed:other@https://b.example,sealed:openai-main@https://c.example';
    expect(beyondReach(asked, file, reachOf('https://b.example', others))).toHaveLength(1);
  }
});

test.each<[string, object, boolean]>([
  ['at the host of its kind', { kind: 'openai', provider: undefined, base_url: undefined }, true],
  ['at that host, under its own name', { kind: 'openai', provider: 'openai-eu' }, true],
  ['as the file has it', {}, true],
  ['as the process lists it', { base_url: 'https://b.example/v1' }, true],
  ['of another provider there', { provider: 'acme', base_url: 'https://b.example/v1' }, false],
  ['anywhere else', { base_url: 'https://c.example/v1' }, false],
  ['anywhere else, by its kind', { kind: 'openai', base_url: 'https://c.example/v1' }, false],
  [
    "at another kind's host",
    { kind: 'mistral', shape: undefined, provider: 'openai', base_url: undefined },
    false,
  ],
])('own keys go to a target %s: %j is %s', (_, change, goes) => {
  const reach = reachOf('https://b.example, https://c.example', 'own:openai@https://b.example');
  const asked = settings(change);
  const takesOwnKeys = ownKeyReach(file, reach);
  expect(asked.providers.targets.map(takesOwnKeys)).toEqual([goes]);
  const closed = closedToOwnKeys(asked, takesOwnKeys);
  expect(closed === undefined).toBe(goes);
  if (closed === undefined) return;
  expect(closed.targets).toEqual(['a']);
  expect(closed.entries).toEqual([expect.stringMatching(/^own:\w+@https:\/\/[\w.]+$/)]);
  // What is told is what allows it.
  const allowed = ownKeyReach(file, reachOf('', closed.entries.join()));
  expect(asked.providers.targets.map(allowed)).toEqual([true]);
});

test('a target of the file without a key allows no own keys there', () => {
  const bare = settings({ api_key_env: undefined, base_url: 'https://b.example/v1' });
  const asked = settings({ base_url: 'https://b.example/v1' });
  expect(asked.providers.targets.map(ownKeyReach(bare, nothing))).toEqual([false]);
});

test('a refusal is the same whether the variable is set or not', () => {
  const refusal = (api_key_env: string) => {
    try {
      parseGiven(configured({ api_key_env }), 'version 2', { file, reach: nothing });
      return 'none';
    } catch (error) {
      return (error as Error).message.replaceAll(api_key_env, 'X');
    }
  };
  expect(process.env.PATH).toBeDefined();
  expect(refusal('PATH')).toBe(refusal('NEVER_SET_ANYWHERE'));
  expect(refusal('PATH')).toContain('GATEWAY_SECRET_ENVS');
});

test('no configuration names a variable of the product itself, the file neither', () => {
  for (const name of ['CONTROL_PLANE_TOKEN', 'SVC_SECRETS_KEY', 'DATABASE_URL', 'JWT_ISSUER']) {
    expect(keptVariables(settings({ api_key_env: name }))).toHaveLength(1);
    expect(() => parseSettings(JSON.stringify(configured({ api_key_env: name })))).toThrow(
      /variable of the product's own/,
    );
    const listed = reachOf('', `${name}@https://api.openai.com`);
    expect(() =>
      parseGiven(configured({ api_key_env: name }), 'version 2', { file, reach: listed }),
    ).toThrow(/variable of the product's own/);
  }
});

test('the lists of the process are origins and names, or the gateway does not start', () => {
  expect(reachOf('', '')).toEqual(nothing);
  expect(reachOf('https://a.example, http://127.0.0.1:8090', 'A@https://a.example,B')).toEqual({
    origins: ['https://a.example', 'http://127.0.0.1:8090'],
    variables: [
      { name: 'A', origin: 'https://a.example' },
      { name: 'B', origin: undefined },
    ],
  });
  for (const wrong of ['*', 'a.example', 'https://a.example/v1', 'https://u:p@a.example'])
    expect(() => reachOf(wrong, '')).toThrow(/GATEWAY_ORIGINS must be origins/);
  expect(
    reachOf('', 'sealed:a-b@https://a.example,own:Acme + ü@https://b.example').variables,
  ).toEqual([
    { name: 'sealed:a-b', origin: 'https://a.example' },
    { name: 'own:Acme + ü', origin: 'https://b.example' },
  ]);
  const unbound = ['sealed:a', 'own:openai', 'own:@https://a.example', 'other:a@https://a.example'];
  for (const wrong of ['*', 'A@a.example', 'A@', 'A B', '@https://a.example', ...unbound])
    expect(() => reachOf('', wrong)).toThrow(/GATEWAY_SECRET_ENVS must be names/);
});

/** The paths of all members of the schema, with `[]` for what repeats. */
function pathsOf(schema: z.core.JSONSchema.BaseSchema, at = ''): string[] {
  const inner = Object.entries(schema.properties ?? {}).flatMap(([name, member]) =>
    pathsOf(member as z.core.JSONSchema.BaseSchema, at === '' ? name : `${at}.${name}`),
  );
  const items = schema.items
    ? pathsOf(schema.items as z.core.JSONSchema.BaseSchema, `${at}[]`)
    : [];
  const others = (schema.anyOf ?? []).flatMap((one) =>
    pathsOf(one as z.core.JSONSchema.BaseSchema, at),
  );
  return [at, ...inner, ...items, ...others];
}

test('each member of the schema that names an address or a variable has its rule', () => {
  const schema = z.toJSONSchema(settingsSchema, { io: 'input', unrepresentable: 'any' });
  const named = pathsOf(schema).filter((path) => /(_env|url|uri|endpoint|address)$/i.test(path));
  // Each stands in placesOf; `mcp.servers[].headers` are sent as they are and hold no secret.
  expect([...new Set(named)].sort()).toEqual([
    'distributed_rate_limit.store_url_env',
    'identity.jwks_url',
    'mcp.servers[].api_key_env',
    'mcp.servers[].url',
    'observability.otlp.endpoint_env',
    'providers.targets[].api_key_env',
    'providers.targets[].auth.aws.access_key_id_env',
    'providers.targets[].auth.aws.external_id_env',
    'providers.targets[].auth.aws.secret_access_key_env',
    'providers.targets[].auth.aws.session_token_env',
    'providers.targets[].auth.entra.client_secret_env',
    'providers.targets[].auth.google.credentials_file_env',
    'providers.targets[].auth.key_env',
    'providers.targets[].base_url',
    // One of two words, of which the address is built.
    'providers.targets[].endpoint',
  ]);
  expect(placesOf(file).map(({ path }) => path)).toEqual([
    'providers.targets[0]',
    'identity.jwks_url',
    'distributed_rate_limit.store_url_env',
    'observability.otlp.endpoint_env',
  ]);
});
