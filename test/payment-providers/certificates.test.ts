import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { createServer } from 'node:http';
import selfsigned from 'selfsigned';
import { createCertificates } from '../../payment-providers/certificates';
import { type Authority, certify, makeAuthority } from '../../sandbox/payments/a/authority';
import { closeServers, serveHere } from '../support/payments/providers';

// Certificates of a provider, as its server may give them: which of them are believed.

const NAME = 'messageverificationcerts.example.com';
const pair = pairOf(2_048);
const files = new Map<string, string>();
let origin: string;
let authority: Authority;

beforeAll(async () => {
  authority = await makeAuthority();
  const server = createServer((req, res) => {
    const text = files.get(req.url ?? '');
    if (req.url === '/elsewhere') return res.writeHead(302, { location: '/moved' }).end();
    if (req.url === '/busy') return res.writeHead(500).end();
    if (req.url === '/endless') return pour(res);
    return text === undefined ? res.writeHead(404).end() : res.end(text);
  });
  origin = await serveHere(server);
});
afterAll(closeServers);

function pour(res: import('node:http').ServerResponse): void {
  if (res.destroyed) return;
  res.write('x'.repeat(10_000));
  setTimeout(pour, 1, res);
}

function pairOf(modulusLength: number) {
  return generateKeyPairSync('rsa', {
    modulusLength,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
}

/** Asks for a file, as somebody who trusts the authority. */
function take(path: string, trusted: Authority[] = [authority]) {
  const authorities = trusted.map(({ cert }) => new X509Certificate(cert));
  const certificateAt = createCertificates({ authorities, names: [NAME] });
  return certificateAt(`${origin}${path}`, AbortSignal.timeout(60_000));
}

function put(path: string, text: string): string {
  files.set(path, text);
  return path;
}

/** An authority below another. */
async function below(ca: Authority, cA = true): Promise<Authority> {
  const { private: key, cert } = await selfsigned.generate(
    [{ name: 'commonName', value: 'Issuing authority' }],
    {
      algorithm: 'sha256',
      ca,
      extensions: [
        { name: 'basicConstraints', cA, critical: true },
        { name: 'keyUsage', keyCertSign: true, critical: true },
      ],
    },
  );
  return { key, cert };
}

test('a certificate is believed if its chain ends at an authority that is trusted', async () => {
  const issuing = await below(authority);
  const leaf = await certify(authority, { name: NAME, pair });
  const deeper = await certify(issuing, { name: NAME, pair });
  expect((await take(put('/leaf', leaf)))?.subject).toContain(NAME);
  expect(await take(put('/chain', `${deeper}\n${issuing.cert}`))).toBeDefined();
  // An authority in between may be the one that is trusted.
  expect(await take(put('/short', deeper), [issuing])).toBeDefined();
  expect(await take('/nothing')).toBeUndefined();
});

test('every other certificate is trouble that says why, and is kept by nobody', async () => {
  const strange = await makeAuthority();
  const none = await below(authority, false);
  const day_ms = 86_400_000;
  const old = { from: new Date(Date.now() - 9 * day_ms), until: new Date(Date.now() - day_ms) };
  const later = { from: new Date(Date.now() + day_ms), until: new Date(Date.now() + 2 * day_ms) };
  const of = (ca: Authority, more: object = {}) => certify(ca, { name: NAME, pair, ...more });
  const own = await selfsigned.generate([{ name: 'commonName', value: NAME }], {
    algorithm: 'sha256',
  });
  const cases: [string, string, RegExp][] = [
    ['/self', own.cert, /signed by nobody who is trusted.*PAYMENT_CA_FILES/],
    ['/strange', await of(strange), /signed by nobody/],
    ['/strange-chain', `${await of(strange)}\n${strange.cert}`, /signed by nobody/],
    ['/no-authority', `${await of(none)}\n${none.cert}`, /signed by nobody/],
    ['/cut', await of(await below(authority)), /signed by nobody/],
    ['/old', await of(authority, old), /is good from/],
    ['/later', await of(authority, later), /is good from/],
    ['/name', await of(authority, { name: 'evil.example.com' }), /is not of/],
    ['/below-name', await of(authority, { name: `${NAME}.evil.example` }), /is not of/],
    ['/small', await of(authority, { pair: pairOf(1_024) }), /another key/],
    ['/long', `${await of(authority)}\n${authority.cert.repeat(9)}`, /is none/],
    ['/page', '<html>certificate</html>', /is none/],
  ];
  for (const [path, text, why] of cases) await expect(take(put(path, text))).rejects.toThrow(why);
});

test('no redirect is followed, no failure is kept, and no file without an end is read', async () => {
  put('/moved', await certify(authority, { name: NAME, pair }));
  await expect(take('/elsewhere')).rejects.toThrow();
  await expect(take('/busy')).rejects.toThrow(/answered 500/);
  await expect(take('/endless')).rejects.toThrow(/too long/);
  const authorities = [new X509Certificate(authority.cert)];
  const certificateAt = createCertificates({ authorities, names: [NAME] });
  const at = (path: string) => certificateAt(`${origin}${path}`, AbortSignal.timeout(60_000));
  await expect(at('/late')).resolves.toBeUndefined();
  await expect(at('/busy')).rejects.toThrow();
  await expect(at('/busy')).rejects.toThrow();
  expect(await at('/moved')).toBe(await at('/moved'));
});
