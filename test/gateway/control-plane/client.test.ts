import { createServer, type Server } from 'node:http';
import { json } from 'node:stream/consumers';
import pino from 'pino';
import { type ControlPlane, openControlPlane } from '../../../gateway/control-plane/client';
import { nothing_used } from '../../../gateway/families/usage';
import { listen } from '../../../runtime/listen';
import { until } from '../../support/until';

const price = { provider: 'openai', model: 'o4-mini', reasoning: true };
const PRICES_FRESH_MS = 60_000;
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
