import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';
import { openControlPlane } from '../../../gateway/control-plane/client';
import { openEvents } from '../../../gateway/control-plane/events';
import { listen } from '../../../runtime/listen';
import { createLog } from '../../../runtime/log';
import { until } from '../../support/until';

interface Told {
  id: string;
  type?: string;
}

/** A control plane that takes every item; `takes` says what it does with events in a batch. */
async function openPlane(takes: 'events' | 'none' | 'nothing unknown' | 'its time') {
  const seen = {
    batches: 0,
    travelled: [] as Told[],
    alone: [] as Told[],
    held: [] as (() => void)[],
  };
  const server = createServer(async (req, res) => {
    const body = (await json(req)) as { items: Told[]; events?: { id: string; items: Told[] } };
    if (req.url === '/v1/gateway/events') {
      seen.alone.push(...body.items);
      res.end('{"recorded":1}');
      return;
    }
    seen.batches += 1;
    const { events } = body;
    if (events !== undefined && takes === 'nothing unknown') {
      res.writeHead(422).end('{"type":"error","error":{"code":"unknown_field","param":"events"}}');
      return;
    }
    const line = (id: string, status: number) => `${JSON.stringify({ id, status, body: {} })}\n`;
    if (takes === 'its time') await new Promise<void>((resolve) => seen.held.push(resolve));
    for (const { id } of body.items) res.write(line(id, 200));
    const is_taken = takes !== 'none';
    if (events !== undefined && is_taken) seen.travelled.push(...events.items);
    res.end(events === undefined ? '' : line(events.id, is_taken ? 200 : 503));
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const log = createLog('test', 'silent');
  const control_plane = openControlPlane({ urls: [url], token: 'any' }, log);
  const events = openEvents(control_plane, log);
  const close = async () => {
    await events.close(1_000);
    await control_plane.close();
    await new Promise((resolve) => server.close(resolve));
  };
  return { seen, control_plane, events, close };
}

const subject = { identity: undefined, request_id: 'req_1', trace_label: null };

test.each([
  ['events', { batches: 1, travelled: 2, alone: 0 }],
  ['none', { batches: 1, travelled: 0, alone: 2 }],
  // It gets the batch again without them, and later ones without events at once.
  ['nothing unknown', { batches: 2, travelled: 0, alone: 2 }],
] as const)(
  'where a control plane takes %s, a settlement is settled and its events arrive once',
  async (takes, counts) => {
    const { seen, control_plane, events, close } = await openPlane(takes);
    const payload = {};
    events.emit(subject, { type: 'rate_limit.checked', payload });
    events.emit(subject, { type: 'request.completed', payload });
    control_plane.settle({ org_id: 'org_1', request_id: 'req_1', outcome: 'canceled' });
    await until(async () => control_plane.unsettled() === 0 && events.count() === 0);
    const { batches, travelled, alone } = seen;
    expect({ batches, travelled: travelled.length, alone: alone.length }).toEqual(counts);
    if (takes === 'nothing unknown') {
      events.emit(subject, { type: 'request.completed', payload });
      control_plane.settle({ org_id: 'org_1', request_id: 'req_2', outcome: 'canceled' });
      await until(async () => control_plane.unsettled() === 0);
      expect(seen.batches).toBe(counts.batches + 1);
    }
    await close();
    const ids = [...seen.travelled, ...seen.alone].map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  },
);

test('an event of a call that settles nothing goes by itself', async () => {
  const { seen, events, close } = await openPlane('events');
  events.emit(subject, { type: 'rate_limit.exceeded', action: 'rate_limited', payload: {} });
  await until(async () => events.count() === 0);
  expect([seen.batches, seen.alone.length]).toEqual([0, 1]);
  await close();
});

test('a batch that is not answered holds up no other event at the end, and what it took is told as lost', async () => {
  const { seen, control_plane, events, close } = await openPlane('its time');
  events.emit(subject, { type: 'rate_limit.checked', payload: {} });
  control_plane.settle({ org_id: 'org_1', request_id: 'req_1', outcome: 'canceled' });
  await until(async () => seen.batches === 1);
  events.emit(subject, { type: 'request.completed', payload: {} });
  await events.close(500);
  expect(seen.alone.map(({ type }) => type)).toEqual(['request.completed']);
  expect(events.dropped()).toBe(1);
  for (const goOn of seen.held) goOn();
  await until(async () => control_plane.unsettled() === 0);
  await close();
});

test('events whose batch is held up go by themselves within a second', async () => {
  const { seen, control_plane, events, close } = await openPlane('its time');
  events.emit(subject, { type: 'rate_limit.checked', payload: {} });
  control_plane.settle({ org_id: 'org_1', request_id: 'req_1', outcome: 'canceled' });
  await until(() => events.count() === 0);
  expect([seen.batches, seen.travelled.length, seen.alone.length]).toEqual([1, 0, 1]);
  for (const goOn of seen.held) goOn();
  await until(() => control_plane.unsettled() === 0);
  expect(events.count()).toBe(0);
  await close();
});
