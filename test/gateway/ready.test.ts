import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { request } from 'undici';
import { createApp } from '../../gateway/app';
import { parseSettings } from '../../gateway/config/settings';
import { openControlPlane } from '../../gateway/control-plane/client';
import { closeGateway, openGateway } from '../../gateway/gateway';
import { listen } from '../../runtime/listen';
import { createLog } from '../../runtime/log';
import { leastOf } from '../support/cpu';
import { until } from '../support/until';

// The probe gives up after a second, any other request after four; the rest is for a busy machine.
const ANSWERED_WITHIN_MS = 3_500;
const refused_key = JSON.stringify({
  type: 'error',
  error: { code: 'invalid_credential', message: 'No such key.', param: 'key' },
});

/**
 * A control plane that answers as long as it is well, and then holds its connections open in
 * silence.
 */
function openControl(how: 'silent' | 'headers' | 'body') {
  let is_well = true;
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', () => {
      const head = `HTTP/1.1 401 Unauthorized\r\ncontent-type: application/json\r\ncontent-length: ${refused_key.length}\r\n`;
      if (is_well) socket.write(`${head}\r\n${refused_key}`);
      else if (how === 'headers') socket.write(head);
      else if (how === 'body') socket.write(`${head}\r\n${refused_key.slice(0, 9)}`);
    });
  });
  return {
    server,
    hang: (hangs: boolean) => {
      is_well = !hangs;
    },
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

async function openOver(server: Server) {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
  server.listen(0);
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const target = {
    id: 'a',
    provider: 'openai',
    shape: 'openai',
    base_url: url,
    models: ['gpt-4o-mini'],
    api_key_env: 'TEST_MODELS_KEY',
  };
  const log = createLog('test', 'silent');
  const gateway = await openGateway({
    settings: parseSettings(JSON.stringify({ providers: { targets: [target] } })),
    control_plane: openControlPlane({ urls: [url], token: 'svc_ak_token' }, log),
    log,
  });
  const front = createHttpServer(
    createApp(gateway, {
      reload: () => Promise.reject(new Error('Not asked for here.')),
    }).callback(),
  );
  const gateway_url = `http://127.0.0.1:${await listen(front, 0)}`;
  const close = async () => {
    front.closeAllConnections();
    front.close();
    await closeGateway(gateway);
  };
  return { url: gateway_url, close };
}

async function ask(url: string) {
  const started_at = performance.now();
  const answer = await request(url);
  await answer.body.dump();
  return { status: answer.statusCode, took_ms: performance.now() - started_at };
}

test.each(['silent', 'headers', 'body'] as const)(
  'a control plane that hangs (%s) leaves /readyz answering 503 within a second, and 200 again once it is well',
  async (how) => {
    const control = openControl(how);
    const gateway = await openOver(control.server);
    const ready = `${gateway.url}/readyz`;
    await until(async () => (await ask(ready)).status === 200);
    control.hang(true);
    await until(async () => (await ask(ready)).status === 503);
    /** The longest of three answers of this status that are asked for together. */
    const longest = async (url: string, status: number) => {
      const answers = await Promise.all([ask(url), ask(url), ask(url)]);
      expect(answers.map((answer) => answer.status)).toEqual(Array(3).fill(status));
      return Math.max(...answers.map(({ took_ms }) => took_ms));
    };
    for (const [url, status] of [
      [ready, 503],
      [`${gateway.url}/svc/health`, 200],
    ] as const) {
      const took_ms = await leastOf(5, ANSWERED_WITHIN_MS, () => longest(url, status));
      expect(took_ms).toBeLessThan(ANSWERED_WITHIN_MS);
    }
    control.hang(false);
    await until(async () => (await ask(ready)).status === 200);
    await gateway.close();
    await control.close();
  },
);
