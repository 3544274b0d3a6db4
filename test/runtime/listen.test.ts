import { createServer, type Server } from 'node:http';
import { ConfigError } from '../../runtime/config';
import { listen } from '../../runtime/listen';

const servers: Server[] = [];

afterAll(() => {
  for (const server of servers) server.close();
});

function opened(host?: string, port = 0): Promise<number> {
  const server = createServer((_, res) => res.end('here'));
  servers.push(server);
  return listen(server, port, { host, name: 'API' });
}

/** True if a server answers on a second loopback address. */
async function isOnAll(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.2:${port}`).then(
    () => true,
    () => false,
  );
}

test('a server with a host listens there only, one without on all interfaces', async () => {
  const port = await opened('127.0.0.1');
  expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe('here');
  expect(await isOnAll(port)).toBe(false);
  // Only Linux has the whole of 127.0.0.0/8.
  if (process.platform === 'linux') expect(await isOnAll(await opened())).toBe(true);
});

test('a port that is taken and a host of elsewhere are refused by the name of their variable', async () => {
  const port = await opened('127.0.0.1');
  await expect(opened('127.0.0.1', port)).rejects.toThrow(
    new ConfigError(`Port ${port} is in use by another process. Set API_PORT to another one.`),
  );
  await expect(opened('192.0.2.1')).rejects.toThrow(
    new ConfigError('192.0.2.1 is no address of this machine. Set API_HOST.'),
  );
});
