import { createServer, type Server } from 'node:http';
import { listen } from '../../../runtime/listen';
import { jsonOf, startConsole, type TestConsole } from '../../support/console/server';

// What stands before the API answers for it: its words are none of the API's.

let proxy: Server;
let web: TestConsole;
let page: [number, string] = [403, '{}'];
let is_ready = true;

beforeAll(async () => {
  proxy = createServer((req, res) => {
    req.resume();
    res.setHeader('content-type', 'application/json');
    if (req.url === '/health') return res.end('{"status":"ok","version":"1.5.0"}');
    if (req.url === '/readyz') {
      res.statusCode = is_ready ? 200 : 503;
      return res.end(JSON.stringify({ status: is_ready ? 'ready' : 'not ready' }));
    }
    res.statusCode = page[0];
    return res.end(page[1]);
  });
  web = await startConsole(`http://127.0.0.1:${await listen(proxy, 0)}`);
});
afterAll(async () => {
  await web.close();
  proxy.closeAllConnections();
  proxy.close();
});

test.each<[number, string]>([
  [403, '{"error":"blocked by rule 7"}'],
  [404, '{"message":"no route"}'],
  [429, '{}'],
  [502, '<html>bad gateway</html>'],
])('an answer of %i that is no refusal of the API is 503 with words: %s', async (...given) => {
  page = given;
  const answer = await web.ask('POST', '/api/session', { body: { access_key: 'svc_ak_x' } });
  const { error } = await jsonOf(answer);
  expect([answer.status, error.code]).toEqual([503, 'unavailable']);
  expect(error.message).toMatch(/not the API|none of its own/);
});

test('an API that is not ready makes a console that is not', async () => {
  expect((await fetch(`${web.url}/readyz`)).status).toBe(200);
  is_ready = false;
  const answer = await fetch(`${web.url}/readyz`);
  expect(answer.status).toBe(503);
  expect((await jsonOf(answer)).error.message).toMatch(/not ready/);
});
