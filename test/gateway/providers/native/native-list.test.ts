import { createServer, type Server } from 'node:http';
import { listen } from '../../../../runtime/listen';
import { listed_models } from '../../../../sandbox/providers/gemini-models';
import { until } from '../../../support/until';
import { openSold, origin, visits, world } from '../sold';

// The list of models on Gemini's own wire.

const row = {
  id: 'own',
  kind: 'gemini',
  shape: 'gemini',
  auth: { key_env: 'TEST_MODELS_KEY' },
};

/** What is listed, once that is as much as is expected. */
async function discovered(base_url: string, expected: string[], discover: unknown = true) {
  const settings = { providers: { targets: [{ ...row, base_url, discover }] } };
  const { gateway } = await world.openGateway({ settings });
  const names = () =>
    gateway.snapshot.providers.models(new Set(['gemini'] as const), null).map(({ model }) => model);
  await until(() => names().length >= expected.length).catch(() => undefined);
  return names();
}

test('all parts of a list are read, without what serves neither chats nor embeddings', async () => {
  visits.length = 0;
  const names = listed_models.map(({ name }) => name.replace('models/', '')).slice(0, -1);
  expect(await discovered(`${origin}/gemini/v1beta`, names)).toEqual(names);
  const asked = visits.filter(({ method }) => method === 'GET').map(({ path }) => path);
  expect(asked).toEqual([
    '/v1beta/models?pageSize=1000',
    '/v1beta/models?pageSize=1000&pageToken=Mg%3D%3D',
    '/v1beta/models?pageSize=1000&pageToken=NA%3D%3D',
  ]);
  const flash = ['gemini-3.8-flash'];
  const match = { match: ['*flash'] };
  expect(await discovered(`${origin}/gemini/v1beta`, flash, match)).toEqual(flash);
});

test('what is discovered is served under its name', async () => {
  const url = await openSold({}, [{ ...row, base_url: `${origin}/gemini/v1beta`, discover: true }]);
  await until(async () => (await fetch(`${url}/readyz`)).status === 200);
  let told: { unpriced_models?: string[] } = {};
  await until(async () => {
    told = (await (await fetch(`${url}/svc/health`)).json()) as typeof told;
    return told.unpriced_models !== undefined;
  });
  expect(told.unpriced_models).toContain('gemini/gemini-3.8-flash');
});

/** A server whose list is this. */
async function withList(list: (path: string) => unknown, check: (base: string) => Promise<void>) {
  const server: Server = createServer((req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify(list(req.url ?? '')));
  });
  const base = `http://127.0.0.1:${await listen(server, 0)}/v1beta`;
  try {
    await check(base);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test.each<[why: string, list: (path: string) => unknown, found: string[]]>([
  ['without end', () => ({ models: [{ name: 'models/a' }], nextPageToken: 'x' }), []],
  ['with an empty token', () => ({ models: [{ name: 'models/a' }], nextPageToken: '' }), ['a']],
  ['of other things', () => ({ models: [null, 1, { name: 2 }, { name: 'models/a b' }] }), []],
  ['that is none', () => [], []],
  ['without methods', () => ({ models: [{ name: 'models/a' }, { name: 'b' }] }), ['a', 'b']],
])('a list %s gives what is sound of it', async (_, list, found) => {
  await withList(list, async (base) => {
    expect(await discovered(base, found)).toEqual(found);
  });
});
