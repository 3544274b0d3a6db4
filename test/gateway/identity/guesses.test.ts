import { createServer, type Server } from 'node:http';
import { request } from 'undici';
import { newKey } from '../../../domain/people/keys';
import { listen } from '../../../runtime/listen';
import {
  chat,
  gatewayKey,
  openWorld,
  post,
  type TestGateway,
  type World,
} from '../../support/gateway';

const path = '/v1/chat/completions';
let world: World;
let gateway: TestGateway;
let door: Server;
/** How often the control plane was asked who a key is. */
let asked = 0;

beforeAll(async () => {
  world = await openWorld();
  door = createServer(async (req, res) => {
    if (req.url === '/v1/gateway/keys/verify') asked += 1;
    const { method = 'GET', url, headers } = req;
    const answer = await request(world.api.url + url, {
      method: method as 'GET',
      headers,
      body: req,
    });
    res.writeHead(answer.statusCode, answer.headers as Record<string, string>);
    res.end(Buffer.from(await answer.body.arrayBuffer()));
  });
  const url = `http://127.0.0.1:${await listen(door, 0)}`;
  gateway = await world.openGateway({ api_urls: [url] });
});

afterAll(async () => {
  await world.close();
  door.closeAllConnections();
  door.close();
});

/** A call with this key that comes from this address. */
async function from(address: string, key: string, at = path) {
  const body = JSON.stringify(chat('Hello'));
  const given = { authorization: `Bearer ${key}`, 'x-forwarded-for': address };
  const is_get = at === '/v1/models';
  const answer = await request(gateway.url + at, {
    method: is_get ? 'GET' : 'POST',
    headers: { ...given, 'content-type': 'application/json' },
    body: is_get ? null : body,
  });
  await answer.body.dump();
  return { status: answer.statusCode, retry_after: answer.headers['retry-after'] };
}

test.each([path, '/v1/models'])(
  'invented keys of one address are asked for twenty times a second, and no other caller waits (%s)',
  async (at) => {
    // Known before, by the same address.
    expect((await from('203.0.113.1', world.key)).status).toBe(200);
    asked = 0;
    const answers: { status: number; retry_after: unknown }[] = [];
    const began_at = performance.now();
    const ends_at = began_at + 1_500;
    const guess = async () => {
      while (performance.now() < ends_at) {
        answers.push(await from('203.0.113.1', await newKey('gateway'), at));
      }
    };
    const guesses = Array.from({ length: 60 }, guess);
    expect((await from('203.0.113.1', world.key)).status).toBe(200);
    const made = await gatewayKey(world.api, world.org.org_id);
    expect((await from('203.0.113.2', made)).status).toBe(200);
    await Promise.all(guesses);
    const took_s = (performance.now() - began_at) / 1_000;
    expect(asked).toBeGreaterThan(8);
    // Those that wait at the end are asked for then.
    expect(asked).toBeLessThan(8 + 20 * (took_s + 0.5));
    for (const { status, retry_after } of answers) {
      expect([401, 503]).toContain(status);
      if (status === 503) expect(retry_after).toBe('2');
    }
  },
);

test('a key that does not exist is asked for once a second, and one that is issued works at once', async () => {
  const key = await newKey('gateway');
  const began_at = performance.now();
  expect((await post(gateway.url + path, key, chat('Hello'))).status).toBe(401);
  asked = 0;
  for (let n = 0; n < 5; n += 1) expect((await from('203.0.113.3', key)).status).toBe(401);
  expect(asked).toBeLessThanOrEqual(Math.floor((performance.now() - began_at) / 1_000));
  const made = await gatewayKey(world.api, world.org.org_id);
  expect((await from('203.0.113.3', made)).status).toBe(200);
});
