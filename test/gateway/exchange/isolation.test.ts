import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { openBatches } from '../../../gateway/control-plane/batches';
import { listen } from '../../../runtime/listen';
import { chat, gatewayKey, lastCharge, openWorld, post, type World } from '../../support/gateway';
import { makeOrg } from '../../support/ledger';

let world: World;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

/** A control plane that takes no batch with the marked call in it, and answers every other call. */
async function openPicky() {
  const batches: number[] = [];
  const server = createServer(async (req, res) => {
    const { items } = (await json(req)) as {
      items: { id: string; body: { is_marked: boolean } }[];
    };
    batches.push(items.length);
    if (items.some(({ body }) => body.is_marked)) {
      res.writeHead(413).end('{"type":"error"}');
      return;
    }
    for (const { id } of items) res.write(`${JSON.stringify({ id, status: 200, body: { id } })}\n`);
    res.end();
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const close = () => new Promise((resolve) => server.close(resolve));
  return { url, batches, close };
}

test('a call for which its whole batch is refused is refused alone; those that travelled with it are answered', async () => {
  const picky = await openPicky();
  const batches = openBatches({ urls: [picky.url], headers: {} });
  const calls = Array.from({ length: 10 }, (_, at) =>
    batches.send('reserve', { is_marked: at === 4 }, 60_000),
  );
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  await batches.close();
  await picky.close();
  expect(picky.batches).toEqual([10, ...Array(10).fill(1)]);
  expect(statuses).toEqual(statuses.map((_, at) => (at === 4 ? 413 : 200)));
});

test.each<[unknown, number]>([
  ['', 402],
  [[''], 402],
  [[[]], 402],
  [[], 422],
  [{ a: 'text' }, 422],
  [null, 422],
  [5, 422],
  [undefined, 422],
])('an embedding of %j is never free: %i at balance zero', async (input, status) => {
  const org = await makeOrg(world.api.db);
  const key = await gatewayKey(world.api, org.org_id);
  const body = { model: 'text-embedding-3-small', input };
  expect((await post(`${world.url}/v1/embeddings`, key, body)).status).toBe(status);
});

test('a count that nobody can mean is charged by the estimate, never nothing', async () => {
  // No count at all, so that the prompt is the estimate; the cap of the output is what is held.
  const content = 'Hello [[fault:usage prompt=9007199254740992 completion=64]]';
  const answer = await post(world.url + path, world.key, chat(content, { model: 'gpt-4o' }));
  expect(answer.status).toBe(200);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge.status).toBe('settled');
  expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
  expect(charge.actual_cost_nanos).toBeLessThanOrEqual(10_000_000_000n);
});
