import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import selfsigned from 'selfsigned';
import { catalogOf } from '../../../price-catalogs/given';

let server: Server;
let origin: string;
let ca: string;
let answer: (path: string) => { status: number; headers?: object; body: string | Buffer };
let arrived = 0;

const list = JSON.stringify({ data: [{ id: 'a/m', pricing: { prompt: '0.000001' } }] });

beforeAll(async () => {
  const { private: key, cert } = await selfsigned.generate(
    [{ name: 'commonName', value: 'localhost' }],
    {
      algorithm: 'sha256',
      extensions: [{ name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] }],
    },
  );
  ca = cert;
  server = createServer({ key, cert }, (req, res) => {
    arrived += 1;
    const { status, headers, body } = answer(req.url ?? '');
    res.writeHead(status, headers as Record<string, string>).end(body);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  origin = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

const everywhere = () => ({ isAllowed: () => true, ca });

test('a price that is from an address shows no query of it, which may open the file', async () => {
  answer = () => ({ status: 200, body: list });
  const { source } = await catalogOf(`${origin}/models?sig=secret`, everywhere());
  expect(source.version).toBe(`${origin}/models`);
});

test('a catalog is fetched from an address, with its day', async () => {
  const headers = { 'last-modified': 'Tue, 01 Dec 2026 08:00:00 GMT' };
  answer = () => ({ status: 200, headers, body: list });
  const { source } = await catalogOf(`${origin}/models`, everywhere());
  expect(source).toMatchObject({
    ...{ catalog: 'openrouter', version: `${origin}/models`, dated: '2026-12-01' },
  });
});

test.each<[string, () => ReturnType<typeof answer>, RegExp]>([
  [
    'a redirect',
    () => ({ status: 302, headers: { location: `${origin}/b` }, body: '' }),
    /cannot be read/,
  ],
  ['an error', () => ({ status: 500, body: '' }), /answered 500/],
  ['more than 32 MB', () => ({ status: 200, body: Buffer.alloc(33_600_000, 32) }), /32 MB/],
])('%s is no catalog', async (_, given, words) => {
  answer = given;
  await expect(catalogOf(`${origin}/models`, everywhere())).rejects.toThrow(words);
});

test('nothing is sent to an address inside a network', async () => {
  const before = arrived;
  for (const address of [origin, origin.replace('127.0.0.1', 'localhost')])
    await expect(catalogOf(address)).rejects.toThrow(/inside a network/);
  expect(arrived).toBe(before);
});
