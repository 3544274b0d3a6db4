import { createServer, type Server } from 'node:http';
import { openControlPlane } from '../../../gateway/control-plane/client';
import { listen } from '../../../runtime/listen';
import { createLog } from '../../../runtime/log';

// What stands before the control plane answers for it: an ingress without a rule, a firewall's
// page, a sign-in page. None of it says anything of configurations, keys or events.

const html = '<html><body>default backend</body></html>';
const pages: [number, string, string][] = [
  [404, 'text/html', html],
  [404, 'application/json', '{"error":"no route matched with those values"}'],
  [403, 'text/html', html],
  [401, 'application/json', '{"error":{"message":"Unauthorized"}}'],
  [200, 'text/html', html],
  [302, 'text/html', ''],
  [429, 'text/plain', 'slow down'],
];

let server: Server;
let url: string;
let page: [number, string, string] = [404, 'text/html', html];

beforeAll(async () => {
  server = createServer((req, res) => {
    req.resume();
    const [status, type, body] = page;
    res.writeHead(status, { 'content-type': type }).end(body);
  });
  url = `http://127.0.0.1:${await listen(server, 0)}`;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const question = { id: 'gw', group: 'default', etag: '"7"', wait_ms: 0 };

test.each(pages)('a page with %i, %s, is as a control plane that is away: %s', async (...given) => {
  page = given;
  const control_plane = openControlPlane({ urls: [url], token: 't' }, createLog('test', 'silent'));
  const away = { code: 'unavailable' };
  const heard = await control_plane.configuration(question as never);
  // Not "none", after which a gateway goes back to its file, without the policies of its version.
  expect(heard.answer).toBe('away');
  await expect(control_plane.verify({ key: 'svc_gk_x' })).rejects.toMatchObject(away);
  // Another token than its own may not reload.
  expect(await control_plane.reloadRightOf('another')).toBe('unknown');
  // Not "refused", after which they would be dropped.
  expect(await control_plane.sendEvents([{ type: 'x' } as never], 1_000)).toBe('away');
  expect(await control_plane.prices()).toBeUndefined();
  expect(await control_plane.isReady()).toBe(false);
  await control_plane.close();
});
