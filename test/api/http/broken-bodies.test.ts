import { once } from 'node:events';
import net from 'node:net';
import pino from 'pino';
import { startApi, type TestApi } from '../../support/api';

let api: TestApi;
let logged = '';

beforeAll(async () => {
  const write = (line: string) => {
    logged += line;
  };
  api = await startApi({ log: pino({ level: 'trace' }, { write }) });
});
afterAll(() => api.close());

/** Sends the beginning of a request and goes, in one of the ways in which clients do. */
async function breakOff(head: string, how: 'end' | 'reset' | 'nonsense'): Promise<void> {
  const socket = net.connect(Number(new URL(api.url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  socket.resume();
  await once(socket, 'connect');
  socket.write(head);
  await new Promise((resolve) => setTimeout(resolve, 20));
  if (how === 'reset') socket.resetAndDestroy();
  else socket.end(how === 'nonsense' ? 'zz\r\nzz' : '');
  await once(socket, 'close');
}

const path = 'POST /v1/payments/webhooks/payment_provider_b HTTP/1.1\r\nhost: x\r\n';
const heads = {
  'a body shorter than its length': `${path}content-length: 100000\r\n\r\n{"id":`,
  'a chunk that is cut': `${path}transfer-encoding: chunked\r\n\r\n400\r\n{"id":`,
};

test.each(Object.entries(heads))(
  '%s that a client breaks off is no error of ours',
  async (_what, head) => {
    for (const how of ['end', 'reset', 'nonsense'] as const) await breakOff(head, how);
    // Another request is answered, and what was broken off is logged by then.
    expect((await api.call('get', '/health', {})).status).toBe(200);
    expect(logged.split('\n').filter((line) => /"level":(50|60)/.test(line))).toEqual([]);
  },
);
