import pino from 'pino';
import { many } from '../../../domain/sql';
import { drain } from '../../../gateway/gateway';
import { gatewayKey, lastCharge } from '../../support/gateway';
import { type Client, connect, refusedUpgrade } from '../../support/socket';
import { until } from '../../support/until';
import { behindWire, models, open, responds, world } from './connected';

const path = '/v1/responses';

async function connected(url = world.url, key = world.key): Promise<Client> {
  const client = await connect(`${url}${path}`, bearer(key));
  open.push(client);
  return client;
}

function bearer(key: string) {
  return { authorization: `Bearer ${key}` };
}

const slowly = 'Slowly. [[fault:chunks count=10; slow delay=30]]';

describe('a socket', () => {
  it('comes from a page that is allowed', async () => {
    const allowed = 'https://app.example';
    const { url, close } = await world.openGateway({
      settings: { sockets: { allowed_origins: [allowed] } },
    });
    const client = await connect(`${url}${path}`, { ...bearer(world.key), origin: allowed });
    client.ws.terminate();
    await close();
  });

  it('finishes what runs when its key is revoked, then closes for good', async () => {
    const { url, close } = await behindWire();
    const key = await gatewayKey(world.api, world.org.org_id);
    const client = await connected(url, key);
    models.keepAfter('response.output_text.delta');
    client.send(responds(slowly, { stream_id: 'one' }));
    await client.some(({ type }) => type === 'response.created');
    await revokeLast();
    client.send(responds('Again.', { stream_id: 'two' }));
    const [refusal] = await client.answer('error', 'two');
    expect(refusal).toMatchObject({ status: 401, error: { code: 'invalid_credential' } });
    models.release();
    await client.answer('response.completed', 'one');
    expect(await client.closed).toMatchObject({ code: 1008 });
    await close();
  });

  it('that is idle closes for good soon after its key is revoked', async () => {
    const { url, gateway, close } = await world.openGateway({
      settings: { sockets: { ping_ms: 300 } },
    });
    const key = await gatewayKey(world.api, world.org.org_id);
    const client = await connected(url, key);
    await revokeLast();
    // A key is asked for again once its record is half a minute old.
    gateway.snapshot.identifier.confirm({ headers: bearer(key), socket: {} }).catch(() => {});
    expect(await client.closed).toMatchObject({ code: 1008 });
    await close();
  });

  it.each([
    ['a binary frame', Buffer.from([1, 2, 3]), 1003],
    ['a frame larger than bodies may be', 'x'.repeat(4_000), 1009],
  ])('closes on %s', async (_, frame, code) => {
    const { url, close } = await world.openGateway({ settings: { body_limit_bytes: 2_048 } });
    const client = await connected(url);
    client.ws.send(frame);
    expect(await client.closed).toMatchObject({ code });
    await close();
  });

  it('that answers no ping is cut, and what ran for it settles', async () => {
    const { url, sockets, close } = await world.openGateway({
      settings: { sockets: { ping_ms: 100 } },
    });
    const client = await connected(url);
    client.send(responds(slowly));
    await client.some(({ type }) => type === 'response.created');
    client.ws.pause();
    await until(() => sockets.sessions.size === 0);
    expect((await lastCharge(world, world.org.org_id)).outcome).toBe('completed');
    await close();
  });

  it('that answers pings stays', async () => {
    const { url, close } = await world.openGateway({ settings: { sockets: { ping_ms: 200 } } });
    const client = await connected(url);
    let pings = 0;
    client.ws.on('ping', () => {
      pings += 1;
    });
    await until(() => pings > 3);
    expect(client.ws.readyState).toBe(client.ws.OPEN);
    await close();
  });

  it('that is old finishes what runs, says why, and lets its client connect again', async () => {
    // A life that ends before the call has begun proves nothing.
    for (const lifetime_ms of [150, 1_500, 15_000]) {
      const settings = { sockets: { lifetime_ms } };
      const { url, close } = await behindWire(settings);
      const client = await connected(url);
      const before = models.answered();
      models.keepAfter('response.output_text.delta');
      client.send(responds(slowly, { stream_id: 'one' }));
      const told = await client.answer('error');
      const has_begun = models.answered() > before;
      models.release();
      if (has_begun || lifetime_ms === 15_000) {
        expect(told.at(-1)?.error.code).toBe('websocket_connection_limit_reached');
        await client.answer('response.completed', 'one');
        expect(await client.closed).toMatchObject({ code: 1001 });
      }
      await close();
      if (has_begun) return;
    }
  });

  it('finishes what runs when the gateway stops, refuses what waits, and closes', async () => {
    const { url, gateway, sockets, close } = await behindWire();
    const client = await connected(url);
    const idle = await connected(url);
    models.keepAfter('response.output_text.delta');
    client.send(responds(slowly, { stream_id: 'one' }));
    client.send(responds('Waits.', { stream_id: 'one' }));
    await client.some(({ type }) => type === 'response.created');
    const drained = drain(gateway, sockets);
    expect(await idle.closed).toMatchObject({ code: 1001 });
    const refusal = (await client.answer('error')).at(-1);
    expect(refusal).toMatchObject({ status: 503, error: { code: 'unavailable' } });
    models.release();
    await client.answer('response.completed', 'one');
    expect(await client.closed).toMatchObject({ code: 1001 });
    await drained;
    expect((await refusedUpgrade(`${url}${path}`, bearer(world.key))).status).toBe(503);
    await close();
  });

  it('is cut when the gateway has waited long enough, and the answer is charged', async () => {
    const { url, gateway, sockets } = await world.openGateway({
      settings: { timeouts: { drain_ms: 100 } },
    });
    const client = await connected(url);
    client.send(responds('Long. [[fault:chunks count=200; slow delay=50]]'));
    await client.some(({ delta }) => delta);
    await drain(gateway, sockets);
    expect(await client.closed).toMatchObject({ code: expect.any(Number) });
    expect((await lastCharge(world, world.org.org_id)).actual_cost_nanos).toBeGreaterThan(0n);
  });
});

describe('the log', () => {
  it('has one line for each frame, answered, refused or left', async () => {
    const { url, gateway, sockets, close } = await behindWire();
    const lines: Record<string, unknown>[] = [];
    gateway.log = pino(
      { level: 'info' },
      { write: (line: string) => lines.push(JSON.parse(line)) },
    );
    const client = await connected(url);
    client.send(responds('One.', { stream_id: 'one' }));
    await client.answer('response.completed', 'one');
    client.send(responds('Two.', { model: 'nobody', stream_id: 'two' }));
    await client.answer('error', 'two');
    models.keepAfter('response.output_text.delta');
    client.send(responds(slowly, { stream_id: 'three' }));
    await client.some(({ stream_id, delta }) => stream_id === 'three' && delta);
    client.ws.terminate();
    await until(() => sockets.sessions.size === 0);
    models.release();
    await until(() => lines.length >= 3);
    await close();
    const route = '/v1/responses';
    expect(lines).toMatchObject([
      { route, status: 200, outcome: 'completed', model: 'gpt-4o-mini' },
      { route, status: 404, code: 'model_not_found' },
      { route, status: 200, outcome: 'completed', aborted: true },
    ]);
    expect(JSON.stringify(lines)).not.toContain(world.key);
  });
});

/** Revokes the newest key. */
async function revokeLast(): Promise<void> {
  await many(
    world.api.db,
    `update tokens set revoked_at = clock_timestamp() where id =
     (select id from tokens where org_id = :org_id order by created_at desc, id desc limit 1)`,
    { org_id: world.org.org_id },
  );
}
