import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { request } from 'undici';
import { adopt } from '../../../gateway/adopt';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { until } from '../../support/until';
import {
  accepts,
  call,
  cost,
  free,
  type Handler,
  open,
  payer,
  raw,
  result,
  tool_call,
  world,
} from './raw';

describe('what goes up', () => {
  it('is the protocol, with the credential of the server and none of the client', async () => {
    let seen: IncomingMessage['headers'] = {};
    raw.answer = (req, res) => {
      seen = req.headers;
      res.writeHead(200, {
        'content-type': 'application/json',
        'mcp-thing': 'yes',
        'set-cookie': 'a=b',
      });
      res.end('{"jsonrpc":"2.0","id":1,"result":{}}');
    };
    const back = await call(world.key, {
      body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      headers: {
        'mcp-protocol-version': '2025-11-25',
        'mcp-param-x': '1',
        'last-event-id': '9',
        cookie: 'a=b',
        'x-api-key': world.key,
        'x-svc-agent-id': 'one',
      },
    });
    await back.body.dump();
    expect(seen).toMatchObject({
      authorization: 'Bearer the-servers-own',
      'x-mine': 'yes',
      accept: accepts.accept,
      'mcp-protocol-version': '2025-11-25',
      'mcp-param-x': '1',
      'last-event-id': '9',
    });
    expect(JSON.stringify(seen)).not.toContain(world.key);
    expect(seen).not.toHaveProperty('cookie');
    expect(seen).not.toHaveProperty('x-svc-agent-id');
    expect(back.headers['mcp-thing']).toBe('yes');
    expect(back.headers).not.toHaveProperty('set-cookie');
  });

  it('is the body byte for byte', async () => {
    const body =
      '{ "jsonrpc":"2.0", "id":7.0, "method":"tools/call","params":{"name":"work","arguments":{"n":12345678901234567890}}}';
    let seen = '';
    raw.answer = (_req, res, given) => {
      seen = given;
      res.writeHead(200, { 'content-type': 'application/json' }).end(result);
    };
    await (await call(world.key, { body })).body.dump();
    expect(seen).toBe(body);
  });

  it('holds no session in the newest protocol', async () => {
    let seen: IncomingMessage['headers'] = {};
    raw.answer = (req, res) => {
      seen = req.headers;
      res.writeHead(200, { 'content-type': 'application/json' }).end(result);
    };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-session-id': 'anything' };
    const back = await call(world.key, { headers });
    await back.body.dump();
    expect(back.statusCode).toBe(200);
    expect(seen).not.toHaveProperty('mcp-session-id');
  });
});

describe('a request whose body is slow', () => {
  it('reaches its server although the configuration is replaced meanwhile', async () => {
    const { gateway: reloaded, url: at } = await open();
    const { key } = await payer();
    raw.answer = (_req, res) =>
      res.writeHead(200, { 'content-type': 'application/json' }).end(result);
    const body = new PassThrough();
    body.write(JSON.stringify(tool_call).slice(0, 20));
    const headers = { ...accepts, authorization: `Bearer ${key}` };
    const before = reloaded.snapshot;
    const asked = request(at, { method: 'POST', headers, body });
    await until(() => before.calls > 0);
    await adopt(reloaded, openSnapshot(before.settings, reloaded));
    body.end(JSON.stringify(tool_call).slice(20));
    const back = await asked;
    expect([back.statusCode, await back.body.text()]).toEqual([200, result]);
    expect(before.calls).toBe(0);
  });
});

describe('trouble with the server', () => {
  it.each<[string, Handler]>([
    [
      'it refuses our credential',
      (_req, res) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end(),
    ],
    ['it redirects', (_req, res) => res.writeHead(302, { location: 'http://127.0.0.1:9/' }).end()],
    [
      'it sends a page',
      (_req, res) => res.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    ['it dies', (_req, res) => res.destroy()],
  ])('is a JSON-RPC error with 502, and free, where %s', async (_, wrong) => {
    const { org_id, key } = await payer();
    raw.answer = wrong;
    const back = await call(key);
    expect(back.statusCode).toBe(502);
    expect(back.headers).not.toHaveProperty('www-authenticate');
    expect(await back.body.json()).toMatchObject({
      jsonrpc: '2.0',
      id: 7,
      error: { code: -32_000 },
    });
    expect(await cost(org_id)).toBe(free);
  });

  it('has the headers of each 429 where it is asked too often', async () => {
    const { org_id, key } = await payer();
    const message = '{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Slow down."}}';
    raw.answer = (_req, res) =>
      res.writeHead(429, { 'content-type': 'application/json', 'retry-after': '0.5' }).end(message);
    const back = await call(key);
    expect([back.statusCode, await back.body.text()]).toEqual([429, message]);
    expect(back.headers).toMatchObject({
      'retry-after': '1',
      'x-ratelimit-limit': '0',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': expect.stringMatching(/^\d{10,}$/),
    });
    expect(await cost(org_id)).toBe(free);
  });

  it('passes on what it says of a request, with its status', async () => {
    const { org_id, key } = await payer();
    const message = '{"jsonrpc":"2.0","id":7,"error":{"code":-32020,"message":"mismatch"}}';
    raw.answer = (_req, res) =>
      res.writeHead(400, { 'content-type': 'application/json' }).end(message);
    const back = await call(key);
    expect(back.statusCode).toBe(400);
    expect(await back.body.text()).toBe(message);
    expect(await cost(org_id)).toBe(free);
  });
});
