import { createConnection } from 'node:net';
import { request } from 'undici';
import { chat, gatewayKey } from '../../support/gateway';
import { makeOrg } from '../../support/ledger';
import { openAtMinute } from '../../support/limits';
import { type Client, connect, refusedUpgrade } from '../../support/socket';
import { until } from '../../support/until';
import { open, responds, world } from './connected';

const path = '/v1/responses';

async function connected(url = world.url, key = world.key): Promise<Client> {
  const client = await connect(`${url}${path}`, bearer(key));
  open.push(client);
  return client;
}

function bearer(key: string) {
  return { authorization: `Bearer ${key}` };
}

describe('an upgrade is refused as a whole HTTP answer', () => {
  it.each([
    ['without a key', {}, 401, 'invalid_credential'],
    ['with a key of nobody', bearer(`svc_gk_${'0'.repeat(40)}`), 401, 'invalid_credential'],
  ])('%s', async (_, headers, status, code) => {
    const answer = await refusedUpgrade(`${world.url}${path}`, headers);
    expect(answer).toMatchObject({ status, body: { type: 'error', error: { code } } });
    expect(answer.headers).toMatchObject({ 'www-authenticate': 'Bearer', connection: 'close' });
    expect(answer.body.request_id).toBe(answer.headers['x-request-id']);
  });

  it('from a page of elsewhere', async () => {
    const headers = { ...bearer(world.key), origin: 'https://elsewhere.example' };
    const answer = await refusedUpgrade(`${world.url}${path}`, headers);
    expect(answer).toMatchObject({ status: 403, body: { error: { code: 'browser_not_allowed' } } });
  });

  it('at a path that has no socket', async () => {
    const answer = await refusedUpgrade(`${world.url}/v1/messages`, bearer(world.key));
    expect(answer.status).toBe(404);
  });

  it('where the address has asked too often, each frame counted as a request is', async () => {
    const { url, close } = await openAtMinute(world, {
      settings: { rate_limits: { ip: { enabled: true, rpm: 2 } } },
    });
    const client = await connected(url);
    client.send(responds('One.', { stream_id: 'one' }));
    await client.answer('response.completed', 'one');
    client.send(responds('Two.', { stream_id: 'two' }));
    const [refusal] = await client.answer('error', 'two');
    expect(refusal).toMatchObject({
      status: 429,
      error: { code: 'rate_limit_exceeded', headers: { 'x-ratelimit-limit': '2' } },
    });
    const answer = await refusedUpgrade(`${url}${path}`, bearer(world.key));
    expect(answer).toMatchObject({ status: 429, headers: { 'x-ratelimit-limit': '2' } });
    await close();
  });

  it('beyond the sockets that a key may have, and taken again once one has closed', async () => {
    const sockets = { connections_per_key_max: 1 };
    const { url, close } = await world.openGateway({ settings: { sockets } });
    const first = await connected(url);
    const answer = await refusedUpgrade(`${url}${path}`, bearer(world.key));
    expect(answer).toMatchObject({
      status: 429,
      body: { error: { code: 'websocket_connection_limit_reached' } },
    });
    const other = await gatewayKey(world.api, world.org.org_id);
    await connected(url, other);
    first.ws.close();
    await first.closed;
    await until(() => connected(url).then(Boolean, () => false));
    await close();
  });

  it.each([
    ['half of the places', { connections_max: 4, connections_per_key_max: 2 }, 2],
    ['its share of them', { connections_max: 4, connections_per_org_max: 3 }, 3],
  ])(
    'beyond %s for one organization, whichever its keys, and another one has room',
    async (_, sockets, most) => {
      const { url, close } = await world.openGateway({ settings: { sockets } });
      const keys = [world.key, await gatewayKey(world.api, world.org.org_id)];
      for (let n = 0; n < most; n += 1) await connected(url, keys[n % 2]);
      const third = await gatewayKey(world.api, world.org.org_id);
      const answer = await refusedUpgrade(`${url}${path}`, bearer(third));
      expect(answer).toMatchObject({
        status: 429,
        body: {
          error: {
            code: 'websocket_connection_limit_reached',
            message: expect.stringContaining('organization'),
          },
        },
      });
      const { org_id } = await makeOrg(world.api.db);
      await connected(url, await gatewayKey(world.api, org_id));
      await close();
    },
  );

  it('beyond the sockets that the gateway has room for, whosever they are', async () => {
    const { url, close } = await world.openGateway({
      settings: { sockets: { connections_max: 1 } },
    });
    await connected(url);
    const other = await gatewayKey(world.api, world.org.org_id);
    const answer = await refusedUpgrade(`${url}${path}`, bearer(other));
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'overloaded' } } });
    await close();
  });
});

describe('plain HTTP', () => {
  it('at the path of a socket is told to ask for one', async () => {
    const answer = await request(`${world.url}/v1/chat/completions/ws`, {
      headers: bearer(world.key),
    });
    expect(answer.statusCode).toBe(426);
    expect(answer.headers.upgrade).toBe('websocket');
    await answer.body.dump();
  });

  it('that offers another protocol is answered as if it offered none', async () => {
    const body = JSON.stringify(chat('Say hello.'));
    const { hostname, port } = new URL(world.url);
    const socket = createConnection(Number(port), hostname);
    const head = [
      'POST /v1/chat/completions HTTP/1.1',
      `Host: ${hostname}`,
      'Connection: Upgrade, HTTP2-Settings',
      'Upgrade: h2c',
      'HTTP2-Settings: AAMAAABkAAQ',
      `Authorization: Bearer ${world.key}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    // The body comes later than the head, as it may.
    socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 10)}`);
    setImmediate(() => socket.write(body.slice(10)));
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk;
    });
    await until(() => text.includes('"choices"'));
    expect(text).toMatch(/^HTTP\/1.1 200 /);
    socket.destroy();
  });
});
