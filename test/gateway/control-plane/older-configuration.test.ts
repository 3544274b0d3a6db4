import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { request } from 'undici';
import { openConfiguration } from '../../../gateway/configuration';
import { listen } from '../../../runtime/listen';
import { plainConfig, reportGateway } from '../../api/gateways/making';
import { openWorld, type World } from '../../support/gateway';
import { makeKey } from '../../support/keys';
import { until } from '../../support/until';

// A control plane of the version before knows neither waits nor groups: it refuses them (422).

let world: World;
let admin: string;
let older: Server;
let older_url: string;
const refused: string[] = [];

beforeAll(async () => {
  world = await openWorld();
  admin = await makeKey(world.api.db, null, { scopes: ['platform:admin'] });
  older = createServer(async (incoming, outgoing) => {
    const body = await bodyOf(incoming);
    const { method = 'GET', url = '' } = incoming;
    const is_unknown = /^\/v1\/gateway\/config\?/.test(url) || /"group"/.test(body);
    if (is_unknown) {
      refused.push(`${method} ${url.split('?')[0]}`);
      outgoing.writeHead(422, { 'content-type': 'application/json' });
      outgoing.end('{"error":{"code":"unknown_field"}}');
      return;
    }
    const headers = { ...incoming.headers, 'content-length': undefined } as never;
    const to = `${world.api.url}${url}`;
    const answer = await request(to, { method: method as 'GET', headers, body: body || null });
    outgoing.writeHead(answer.statusCode, answer.headers as never);
    outgoing.end(Buffer.from(await answer.body.arrayBuffer()));
  });
  older_url = `http://127.0.0.1:${await listen(older, 0)}`;
});
afterAll(async () => {
  await world.close();
  older.closeAllConnections();
  older.close();
});

async function bodyOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

test('it is asked as before and told as before; the gateway then stands in no rollout', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-older-'));
  const file = path.join(folder, 'gateway.yaml');
  const { providers } = plainConfig();
  writeFileSync(file, JSON.stringify({ providers }));
  const opened = await world.openGateway({ api_urls: [older_url] });
  const { gateway } = opened;
  const configuration = openConfiguration(gateway, { file, group: 'edge', poll_ms: 50 });
  const config = plainConfig({ body_limit_bytes: 2_048 });
  const put = { key: admin, body: { config } };
  const { body } = await world.api.call('put', '/v1/admin/gateway-config', put);
  await until(() => gateway.snapshot.settings.body_limit_bytes === 2_048);
  const listed = async () =>
    (await world.api.call('get', '/v1/admin/gateways?group=default', { key: admin })).body.gateways;
  await until(async () => (await listed())[0]?.config_version === body.version);
  expect(await listed()).toMatchObject([{ drift: 'in_sync', counts: null }]);
  expect(refused.length).toBeGreaterThan(0);
  expect(refused.length).toBeLessThan(5);
  const start = { key: admin, body: { version: body.version } };
  const rollout = await world.api.call('post', '/v1/admin/config-rollouts', start);
  expect(rollout.body.error).toMatchObject({ param: 'group' });
  await reportGateway(world.api.db);
  expect((await world.api.call('post', '/v1/admin/config-rollouts', start)).status).toBe(201);
  await configuration.close();
  rmSync(folder, { recursive: true });
});
