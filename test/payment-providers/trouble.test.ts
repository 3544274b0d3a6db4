import { createServer } from 'node:http';
import { providerNames } from '../../domain/payments/currencies';
import { isProviderTrouble } from '../../payment-providers/provider';
import {
  closeServers,
  type OpenedSandboxes,
  openSandboxes,
  over,
  serveHere,
  thrown,
  UNIT,
  wanted,
} from '../support/payments/providers';

const [A] = providerNames;

let sandboxes: OpenedSandboxes['sandboxes'];
let ask: OpenedSandboxes['ask'];
let act: OpenedSandboxes['act'];
let fault: OpenedSandboxes['fault'];
let arrivals: OpenedSandboxes['arrivals'];
let lost: OpenedSandboxes['lost'];
let paid: OpenedSandboxes['paid'];

beforeAll(async () => {
  ({ sandboxes, ask, act, fault, arrivals, lost, paid } = await openSandboxes());
});

afterAll(closeServers);

beforeEach(async () => {
  for (const name of providerNames) {
    await ask(name, 'DELETE', 'faults');
    await ask(name, 'DELETE', 'requests');
  }
});

test.each(['timeout', 'reset', 'error'])(
  'a create whose answer is lost (%s) rejects, and the same key finds what was made',
  async (answer) => {
    for (const name of providerNames) {
      const { provider } = sandboxes[name];
      const asked = wanted();
      // B would repeat its 500 under the key; a 503 it does not keep.
      const script = { on: 'create', answer, status: 503 };
      await lost(name, script, () => provider.createCheckout(asked));
      await ask(name, 'DELETE', 'faults');
      const found = await provider.createCheckout(asked);
      const { orders } = await ask(name, 'GET', 'orders');
      const ours = (orders as { reference: string; id: string }[]).filter(
        ({ reference }) => reference === asked.payment_session_id,
      );
      expect(ours.map(({ id }) => id)).toEqual([found.order_id]);
    }
  },
);

test.each(['timeout', 'reset', 'error'])(
  'a capture at provider A whose answer is lost (%s) rejects, and read finds it',
  async (answer) => {
    const { provider } = sandboxes[A];
    const { order_id } = await provider.createCheckout(wanted());
    await act(A, order_id, 'pay');
    const script = { on: 'capture', answer };
    const error = await lost(A, script, () => provider.capture(order_id, 'one'));
    expect(isProviderTrouble(error)).toBe(true);
    const found = await provider.read(order_id);
    expect(found).toMatchObject({ status: 'captured', amount_nanos: 50n * UNIT });
    expect(await provider.capture(order_id, 'two')).toEqual(found);
  },
);

test.each(providerNames)('%s: a slow provider is given up in time', async (name) => {
  const { order_id } = await paid(name);
  await fault(name, { on: 'read', answer: 'timeout', times: 0 });
  const { provider } = over(name, sandboxes[name].access, 700);
  expect((await thrown(provider.read(order_id))).message).toContain('no answer within 700 ms');
});

test.each([400, 404, 409, 422, 429, 500, 502, 503])(
  "a %i that is not in the provider's own words is no definite no",
  async (status) => {
    const between = createServer((req, res) => {
      req.resume();
      // A proxy in between echoes the request.
      res.writeHead(status, { 'content-type': 'text/html' });
      res.end(`<h1>${req.headers.authorization}</h1>`);
    });
    const base_url = await serveHere(between);
    for (const name of providerNames) {
      const { provider } = over(name, { ...sandboxes[name].access, base_url });
      for (const call of [() => provider.createCheckout(wanted()), () => provider.read('X1')])
        expect(isProviderTrouble(await thrown(call()))).toBe(true);
    }
  },
);

test.each(providerNames)(
  '%s: nobody there is trouble, and so are wrong credentials',
  async (name) => {
    const { access } = sandboxes[name];
    const away = over(name, { ...access, base_url: 'http://127.0.0.1:1' }).provider;
    expect(isProviderTrouble(await thrown(away.createCheckout(wanted())))).toBe(true);
    const credentials = Object.fromEntries(
      Object.keys(access.credentials).map((field) => [field, `wrong ${field}`]),
    );
    const stranger = over(name, { ...access, credentials }).provider;
    const error = await thrown(stranger.createCheckout(wanted()));
    expect(isProviderTrouble(error)).toBe(true);
    expect(error.message).toContain('401');
    const nobody = over(name, { ...access, credentials: {} }).provider;
    expect(isProviderTrouble(await thrown(nobody.createCheckout(wanted())))).toBe(true);
  },
);

test('provider A is asked for one token at a time, and again after a failure', async () => {
  const { provider } = over(A, sandboxes[A].access);
  await fault(A, { on: 'token', answer: 'error', status: 500 });
  await thrown(provider.createCheckout(wanted()));
  await Promise.all([1, 2, 3].map(() => provider.createCheckout(wanted())));
  const asked = (await arrivals(A)).filter(({ path }) => path === '/v1/oauth2/token');
  expect(asked).toHaveLength(2);
});

test('a token that provider A does not take any more is replaced for the next call', async () => {
  let tokens = 0;
  const server = createServer((req, res) => {
    req.resume();
    const isOld = req.headers.authorization === 'Bearer token-1';
    res.writeHead(isOld ? 401 : 200, { 'content-type': 'application/json' });
    if (isOld) return res.end('{"error":"invalid_token"}');
    if (req.url !== '/v1/oauth2/token') return res.end('{"id":"O1","status":"CREATED"}');
    tokens += 1;
    return res.end(`{"access_token":"token-${tokens}","token_type":"Bearer","expires_in":32400}`);
  });
  const base_url = await serveHere(server);
  const { provider } = over(A, { ...sandboxes[A].access, base_url });
  expect((await thrown(provider.read('O1'))).message).toContain('401');
  expect((await provider.read('O1')).status).toBe('open');
  await provider.read('O1');
  expect(tokens).toBe(2);
});
