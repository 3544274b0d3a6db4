import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { request } from 'undici';
import { many } from '../../../domain/sql';
import { runCall } from '../../../gateway/call/run';
import { mcp } from '../../../gateway/families/mcp';
import { drain } from '../../../gateway/gateway';
import { gatewayKey } from '../../support/gateway';
import { until } from '../../support/until';
import {
  call,
  cost,
  free,
  gateway,
  open,
  paid,
  payer,
  raw,
  result,
  stream,
  url,
  world,
} from './raw';

describe('a stream', () => {
  it('comes as it is sent, with comments where nothing comes, and none inside an event', async () => {
    let res: ServerResponse | undefined;
    raw.answer = (_req, given) => {
      res = given;
      stream(res);
      res.write('data: {"jsonrpc":"2.0","method":"notifications/progress"}\n');
    };
    const back = await call(world.key);
    let text = '';
    back.body.on('data', (chunk) => {
      text += chunk;
    });
    await until(() => text.includes(': keep-alive\n\n: keep-alive\n\n'));
    expect(text).not.toContain('progress');
    res?.write('\n');
    await until(() => text.includes('progress"}\n\n'));
    res?.end(`data: ${result}\n\n`);
    await until(() => text.endsWith(`data: ${result}\n\n`));
    expect(back.headers).toMatchObject({ 'x-accel-buffering': 'no' });
  });

  it('that ends without an answer is given one, and is free', async () => {
    const { org_id, key } = await payer();
    raw.answer = (_req, res) => {
      stream(res);
      res.write('data: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n');
      setImmediate(() => res.destroy());
    };
    const text = await (await call(key)).body.text();
    const told = JSON.parse(/^data: (.*error.*)$/m.exec(text)?.[1] ?? '{}');
    expect(told).toMatchObject({ id: 7, error: { data: { code: 'upstream_failed' } } });
    expect(await cost(org_id)).toBe(free);
  });

  it('whose answer can be fetched later ends as it ended, and is paid for', async () => {
    const { org_id, key } = await payer();
    raw.answer = (_req, res) => {
      stream(res);
      res.end('id: 1\ndata: \n\n');
    };
    expect(await (await call(key)).body.text()).toBe('id: 1\ndata: \n\n');
    expect(await cost(org_id)).toBe(paid);
  });

  it.each([
    ['a result', '{"jsonrpc":"2.0","id":7,"result":{"content":[],"isError":true}}', paid],
    ['an error', '{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}', free],
    ['a question back', '{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required"}}', free],
    ['the answer to another request', '{"jsonrpc":"2.0","id":8,"result":{}}', free],
  ])('with %s is settled so', async (_, message, nanos) => {
    const { org_id, key } = await payer();
    raw.answer = (_req, res) => {
      stream(res);
      res.end(`data: ${message}\n\n`);
    };
    await (await call(key)).body.dump();
    expect(await cost(org_id)).toBe(nanos);
  });

  it('of notices ends at once when the gateway stops', async () => {
    // A stop waits longer than this test for what does not end.
    const stopping = await open({}, { drain_ms: 600_000 });
    raw.answer = (_req, res) => stream(res);
    const back = await request(stopping.url, {
      headers: { accept: 'text/event-stream', authorization: `Bearer ${world.key}` },
    });
    expect(back.statusCode).toBe(200);
    const text = back.body.text();
    await drain(stopping.gateway, stopping.sockets);
    await text;
  });
});

describe('a client that goes', () => {
  it('cancels in the newest protocol, and pays for what may have been done', async () => {
    const { org_id, key } = await payer();
    let is_closed = false;
    let is_there = false;
    raw.answer = (_req, res) => {
      is_there = true;
      res.on('close', () => {
        is_closed = true;
      });
    };
    const leaving = new AbortController();
    const headers = { 'mcp-protocol-version': '2026-07-28' };
    const gone = call(key, { headers, signal: leaving.signal }).catch(() => 'gone');
    await until(() => is_there);
    leaving.abort();
    expect(await gone).toBe('gone');
    await until(() => is_closed);
    expect(await cost(org_id)).toBe(paid);
  });

  it.each([
    ['a result', result, paid],
    ['an error', '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}', free],
  ])('does not cancel in the older ones: %s counts', async (_, message, nanos) => {
    const { org_id, key } = await payer();
    let res: ServerResponse | undefined;
    raw.answer = (_req, given) => {
      res = given;
      stream(res);
      res.write(': hello\n\n');
    };
    const leaving = new AbortController();
    const back = await call(key, { signal: leaving.signal });
    back.body.on('error', () => {});
    leaving.abort();
    await until(() => [...gateway.calls].every(({ client_is_gone }) => client_is_gone));
    expect(res?.destroyed).toBe(false);
    res?.end(`data: ${message}\n\n`);
    expect(await cost(org_id)).toBe(nanos);
  });

  it('while its key is asked for is gone as its call begins', async () => {
    // Its `close` has come by then, and comes once only.
    const res = new PassThrough().destroy();
    await until(() => res.closed);
    const ctx = { res, req: { headers: {} }, state: { request_id: 'req_1', logged: {} } };
    const found: boolean[] = [];
    let left = 0;
    await runCall({ ctx: ctx as never, gateway, family: mcp }, async (leaving) => {
      found.push(leaving.client_is_gone);
      leaving.onClientGone(() => {
        left += 1;
      });
      await nextTurn();
    });
    expect([found, left]).toEqual([[true], 1]);
  });

  it('is waited for no longer than configured', async () => {
    const { org_id, key } = await payer();
    const short = await open({ detached_ms: 50 });
    let is_closed = false;
    raw.answer = (_req, res) => {
      stream(res);
      res.write(': hello\n\n');
      res.on('close', () => {
        is_closed = true;
      });
    };
    const leaving = new AbortController();
    const back = await call(key, { at: short.url, signal: leaving.signal });
    back.body.on('error', () => {});
    leaving.abort();
    await until(() => is_closed);
    expect(await cost(org_id)).toBe(paid);
  });
});

describe('a stream of notices', () => {
  const hear = (key: string, at = url) =>
    request(at, { headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream' } });

  beforeEach(() => {
    raw.answer = (_req, res) => {
      stream(res);
      res.write(': hello\n\n');
    };
  });

  it('ends once its key is revoked', async () => {
    const { org_id, key } = await payer();
    const back = await hear(key);
    let has_ended = false;
    back.body
      .on('data', () => {})
      .on('end', () => {
        has_ended = true;
      });
    await many(
      world.api.db,
      'update tokens set revoked_at = clock_timestamp() where org_id = :org_id',
      { org_id },
    );
    await until(() => has_ended, 120_000);
    await until(() => gateway.calls.size === 0);
  });

  it.each([
    ['half of those that the gateway may have', { listeners_max: 4, listeners_per_key_max: 2 }],
    ['its share of them', { listeners_max: 9, listeners_per_org_max: 2 }],
  ])('is refused beyond %s for one organization', async (_, bounds) => {
    const few = await open(bounds);
    const [one, other] = [await payer(), await payer()];
    const keys = [one.key, await gatewayKey(world.api, one.org_id)];
    const open_streams = [
      await hear(keys[0] as string, few.url),
      await hear(keys[1] as string, few.url),
    ];
    for (const key of [...keys, await gatewayKey(world.api, one.org_id)]) {
      const { statusCode, body } = await hear(key, few.url);
      expect([statusCode, await body.text()]).toEqual([
        429,
        expect.stringContaining('This organization'),
      ]);
    }
    const its = await hear(other.key, few.url);
    expect(its.statusCode).toBe(200);
    for (const { body } of [...open_streams, its]) body.on('error', () => {}).destroy();
    await until(() => few.gateway.calls.size === 0);
  });

  it('is refused beyond those that a key and the gateway may have, and taken again once one has ended', async () => {
    const few = await open({ listeners_max: 2, listeners_per_key_max: 1 });
    const [first, second, third] = [await payer(), await payer(), await payer()];
    const one = await hear(first.key, few.url);
    const status = async (key: string) => {
      const { statusCode, body } = await hear(key, few.url);
      await body.dump();
      return statusCode;
    };
    expect(await status(first.key)).toBe(429);
    const two = await hear(second.key, few.url);
    expect(await status(third.key)).toBe(503);
    one.body.on('error', () => {}).destroy();
    await until(() => few.gateway.calls.size === 1);
    const again = await hear(third.key, few.url);
    expect(again.statusCode).toBe(200);
    for (const { body } of [two, again]) body.on('error', () => {}).destroy();
    await until(() => few.gateway.calls.size === 0);
  });
});
