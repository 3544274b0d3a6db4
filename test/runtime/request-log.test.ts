import { createServer, type Server } from 'node:http';
import Koa from 'koa';
import pino from 'pino';
import { request } from 'undici';
import { AppError } from '../../domain/errors';
import { conventions } from '../../runtime/conventions';
import { listen } from '../../runtime/listen';
import { addToLine, markRoutine } from '../../runtime/request-log';
import { until } from '../support/until';

let lines: Record<string, unknown>[] = [];
const log = pino(
  { name: 'test', base: null },
  { write: (text: string) => void lines.push(JSON.parse(text)) },
);
const arrived: string[] = [];
let server: Server;
let url: string;

beforeAll(async () => {
  const app = new Koa();
  app.use(conventions(log));
  app.use(async (ctx) => {
    arrived.push(ctx.path);
    if (ctx.path === '/readyz') ctx.body = 'ready';
    if (ctx.path === '/things/7') {
      addToLine(ctx, { route: '/things/:id', org_id: 'org_1', key_id: 'key_1' });
      ctx.body = { secret: 'in the body' };
    }
    if (ctx.path.startsWith('/routine')) {
      markRoutine(ctx);
      ctx.status = Number(ctx.path.slice('/routine/'.length));
      ctx.body = 'told';
    }
    if (ctx.path === '/foreign') throw new AppError('FromElsewhere' as 'not_found', 'Words.');
    if (ctx.path === '/refused') throw new AppError('not_found', 'Nothing is here.');
    if (ctx.path === '/slow') {
      ctx.respond = false;
      ctx.res.writeHead(200);
      ctx.res.write('the beginning');
    }
    if (ctx.path === '/silent') await new Promise((resolve) => ctx.res.once('close', resolve));
  });
  server = createServer(app.callback());
  url = `http://127.0.0.1:${await listen(server, 0)}`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  lines = [];
});

async function ask(path: string, headers: Record<string, string> = {}) {
  const answer = await request(`${url}${path}`, { headers });
  await answer.body.dump();
}

test('a finished request is one line with its route, caller, status, time and id, and nothing of its words', async () => {
  await ask('/things/7?note=private', {
    'x-request-id': 'label-1',
    authorization: 'Bearer svc_ak_secret',
  });
  await until(() => lines.length > 0);
  expect(lines).toEqual([
    {
      level: 30,
      time: expect.any(Number),
      method: 'GET',
      route: '/things/:id',
      status: 200,
      duration_ms: expect.any(Number),
      request_id: 'label-1',
      org_id: 'org_1',
      key_id: 'key_1',
      msg: 'request',
    },
  ]);
});

test('a refusal shows its code; a path of no route is shown without its query, and without keys', async () => {
  await ask('/refused');
  await ask('/nowhere/svc_ak_abcdef?key=svc_gk_ghi');
  await until(() => lines.length === 2);
  expect(lines).toMatchObject([
    { path: '/refused', status: 404, code: 'not_found' },
    { path: '/nowhere/[key]', status: 404, code: 'not_found' },
  ]);
  expect(JSON.stringify(lines)).not.toContain('svc_');
});

test('a refusal with a code that is none of ours is a fault, answered in the one shape', async () => {
  const answer = await request(`${url}/foreign`);
  expect(answer.statusCode).toBe(500);
  expect(await answer.body.json()).toMatchObject({ error: { code: 'internal_error' } });
  await until(() => lines.length === 2);
  expect(lines).toMatchObject([
    { level: 50, msg: 'unexpected error' },
    { status: 500, code: 'internal_error' },
  ]);
});

test('a client that goes before or in the middle of its answer is told by the line', async () => {
  const streaming = await request(`${url}/slow`);
  streaming.body.on('error', () => undefined).destroy();
  await until(() => lines.length === 1);
  const leaving = new AbortController();
  const asked = request(`${url}/silent`, { signal: leaving.signal });
  await until(() => arrived.includes('/silent'));
  leaving.abort();
  await expect(asked).rejects.toThrow();
  await until(() => lines.length === 2);
  expect(lines).toMatchObject([
    { path: '/slow', status: 200, aborted: true },
    { path: '/silent', status: 499, aborted: true },
  ]);
});

test('health checks leave no line', async () => {
  await ask('/readyz');
  await ask('/things/7');
  await until(() => lines.length > 0);
  expect(lines).toMatchObject([{ route: '/things/:id' }]);
});

test('what comes all the time by itself has a line only if it fails', async () => {
  for (const status of [200, 404, 503])
    await (await request(`${url}/routine/${status}`)).body.dump();
  await until(() => lines.length > 0);
  expect(lines.map(({ status }) => status)).toEqual([503]);
});
