import { request } from 'undici';
import { routes } from '../../gateway/routes';
import { openWorld, type World } from '../support/gateway';
import { until } from '../support/until';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

async function ask(method: 'GET' | 'HEAD', path: string, key = world.key) {
  const headers = { authorization: `Bearer ${key}` };
  const answer = await request(world.url + path, { method, headers });
  const text = await answer.body.text();
  const { 'content-type': type, 'content-length': length } = answer.headers;
  return { status: answer.statusCode, type, length, text };
}

const gets = routes.filter(({ method, is_endless }) => method === 'GET' && !is_endless);
const paths = ['/readyz', '/svc/health', ...gets.map(({ path }) => path)];

test.each([...paths, '/v1/models/gpt-4o-mini', '/v1/models/constructor'])(
  'HEAD %s is GET without a body',
  async (path) => {
    let [got, head] = [await ask('GET', path), await ask('HEAD', path)];
    // Probes leave out what takes long: a busy machine is asked again.
    await until(async () => {
      if (got.status === head.status && got.length === head.length) return true;
      [got, head] = [await ask('GET', path), await ask('HEAD', path)];
      return false;
    }).catch(() => undefined);
    expect(head).toEqual({ ...got, text: '' });
  },
);

test('HEAD asks for a key where GET does', async () => {
  expect(await ask('HEAD', '/v1/models', 'none')).toMatchObject({ status: 401, text: '' });
});

test('what never ends has no HEAD, and holds no place for one', async () => {
  for (const path of ['/mcp', '/mcp/tools']) {
    expect(await ask('HEAD', path)).toMatchObject({ status: 404, text: '' });
  }
});
