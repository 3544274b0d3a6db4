import { createServer, type Server } from 'node:http';
import { json } from 'node:stream/consumers';
import pino from 'pino';
import { type ControlPlane, openControlPlane } from '../../../gateway/control-plane/client';
import { nothing_used } from '../../../gateway/families/usage';
import { createDeferred } from '../../../runtime/deferred';
import { listen } from '../../../runtime/listen';
import { until } from '../../support/until';

const price = { provider: 'openai', model: 'o4-mini', reasoning: true };
const PRICES_FRESH_MS = 60_000;
const UNSETTLED_MAX = 2_000;
let server: Server;
let control_plane: ControlPlane;
let is_well = true;
const lines: Record<string, unknown>[] = [];

/** A control plane with one price, which accepts no settlement. */
beforeAll(async () => {
  server = createServer(async (req, res) => {
    if (req.method === 'GET') {
      res.writeHead(is_well ? 200 : 500).end(JSON.stringify({ models: [price] }));
      return;
    }
    const { items } = (await json(req)) as { items: { id: string }[] };
    const body = { error: { code: 'usage_not_priced', message: 'It costs nothing.' } };
    for (const { id } of items) res.write(`${JSON.stringify({ id, status: 422, body })}\n`);
    res.end();
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const log = pino({ level: 'error' }, { write: (line: string) => lines.push(JSON.parse(line)) });
  control_plane = openControlPlane({ urls: [url], token: 'svc_ak_test' }, log);
});

afterAll(async () => {
  await control_plane.close();
  await new Promise((resolve) => server.close(resolve));
});

test('a failure to read the prices is not kept, and hides behind the last good list', async () => {
  is_well = false;
  expect(await control_plane.prices()).toBeUndefined();
  is_well = true;
  expect(await control_plane.prices()).toEqual([price]);
  is_well = false;
  const later = performance.now() + PRICES_FRESH_MS + 1;
  const clock = jest.spyOn(performance, 'now').mockReturnValue(later);
  try {
    expect(await control_plane.prices()).toEqual([price]);
  } finally {
    clock.mockRestore();
  }
});

test('a settlement refused with its usage and with its estimate is told with all that a person needs to charge it', async () => {
  const used = { ...nothing_used, prompt_tokens: 5, completion_tokens: 7 };
  const estimate = { ...nothing_used, prompt_tokens: 10, completion_tokens: 64 };
  const reservation = { org_id: 'org_1', reservation_id: 'res_1' };
  const completed = { outcome: 'completed', usage: used, usage_source: 'upstream' } as const;
  control_plane.settle({ ...reservation, ...completed }, estimate);
  await until(() => control_plane.unsettled() === 0);
  const lost = { ...reservation, usage: estimate, refused_usage: used, code: 'usage_not_priced' };
  expect(lines.at(-1)).toMatchObject({ level: pino.levels.values.error, ...lost });
  expect(lines.at(-1)?.msg).toContain('an answer is not charged');
});

test('while too many settlements wait, no call begins: neither by a reserve nor by the ticket that it brings', async () => {
  const asked: string[] = [];
  const release = createDeferred<void>();
  const stuck = createServer(async (req, res) => {
    const body = (await json(req)) as { items?: { id: string }[] };
    const { items = [] } = body;
    asked.push(JSON.stringify(body));
    await release.promise;
    for (const { id } of items) res.write(`${JSON.stringify({ id, status: 200, body: {} })}\n`);
    res.end();
  });
  const url = `http://127.0.0.1:${await listen(stuck, 0)}`;
  const log = pino({ level: 'silent' });
  const full = openControlPlane({ urls: [url], token: 'svc_ak_test' }, log);
  for (let n = 0; n < UNSETTLED_MAX; n += 1)
    full.settle({ org_id: 'org_1', reservation_id: `res_${n}`, outcome: 'canceled' });
  expect(full.unsettled()).toBe(UNSETTLED_MAX);
  const call = { org_id: 'org_1', request_id: 'req_1', request_body_hash: 'sha256:0' };
  const reserve = { ...call, ...price, estimated_prompt_tokens: 1 };
  const ticket = { ...call, ticket_id: 'ct_1', is_brought: true, wait_ms: 0 };
  const { signal } = new AbortController();
  await expect(full.reserve(reserve as never)).rejects.toMatchObject({ code: 'unavailable' });
  await expect(full.redeem(ticket, signal)).rejects.toMatchObject({
    code: 'unavailable',
    details: { retry_after: 2 },
  });
  release.resolve();
  await until(() => full.unsettled() === 0);
  // What was sent knows nothing of the two.
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.join()).not.toContain(call.request_id);
  await full.close();
  await new Promise((resolve) => stuck.close(resolve));
});
