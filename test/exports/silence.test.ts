import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createExportSteps } from '../../activities/exports';
import * as destinations from '../../domain/exports/destinations';
import type { Db } from '../../domain/sql';
import { openStore } from '../../exports/s3';
import { listen } from '../../runtime/listen';
import { makeTenant, secrets } from '../support/api';
import { openTestDatabase } from '../support/database';
import { until } from '../support/until';
import { type ObjectStore, openObjectStore, store_key } from './object-store';

// Object stores that take a connection and never answer: each call ends, and holds up nobody else.

const BUCKET = 'acme-exports';
const brief = { ask_ms: 400, send_ms: 400 };
// Longer than any test waits.
const patient = { ask_ms: 120_000, send_ms: 120_000 };

let silent: { url: string; sockets: Set<Socket>; close: () => Promise<void> };
let store: ObjectStore;
let db: Db;
let dropDatabase: () => Promise<void>;
let dir: string;

beforeAll(async () => {
  silent = await openSilentStore();
  store = await openObjectStore(BUCKET);
  ({ db, close: dropDatabase } = await openTestDatabase(5));
  dir = await mkdtemp(path.join(tmpdir(), 'svc-silence-'));
});

afterAll(async () => {
  await dropDatabase();
  await silent.close();
  await store.close();
  await rm(dir, { recursive: true });
});

/** Takes what is sent, and says nothing. */
async function openSilentStore() {
  const sockets = new Set<Socket>();
  const server = createServer((sent) => sent.resume());
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  return { url, sockets, close };
}

const at = (endpoint: string): destinations.OpenDestination => ({
  endpoint,
  region: 'eu-central-1',
  bucket: BUCKET,
  ...store_key,
});

const open = (url: string, how = patient) =>
  openStore({ destination: at(url), origins: [url], probe_folder: 'org/a' }, how);

async function draft(): Promise<string> {
  const file = path.join(dir, 'draft');
  await writeFile(file, 'rows');
  return file;
}

test('a probe, a deletion and an upload end, and say that the store does not answer', async () => {
  const target = open(silent.url, brief);
  const words = { code: 'export_target_failed', message: expect.stringContaining('not answer') };
  const warned = jest.spyOn(console, 'warn');
  await expect(target.check()).rejects.toMatchObject(words);
  await expect(target.clear('org/a/exp')).rejects.toMatchObject(words);
  await expect(target.publish(await draft(), 'org/a/f', '')).rejects.toMatchObject(words);
  target.close();
  await until(() => silent.sockets.size === 0);
  expect(warned).not.toHaveBeenCalled();
});

test('an upload ends at once with its signal, and its connection with it', async () => {
  const target = open(silent.url);
  for (const run of [
    async (signal: AbortSignal) => target.publish(await draft(), 'org/a/f', '', signal),
    (signal: AbortSignal) => target.clear('org/a/exp', signal),
  ]) {
    const stopping = new AbortController();
    const running = run(stopping.signal);
    running.catch(() => undefined);
    await until(() => silent.sockets.size > 0);
    stopping.abort(new Error('not wanted'));
    await expect(running).rejects.toThrow('not wanted');
    await until(() => silent.sockets.size === 0);
  }
  target.close();
});

test('a store that does not answer keeps the files of no other organization', async () => {
  const { signal } = new AbortController();
  const made = { silent: await expired(silent.url), store: await expired(store.url) };
  store.objects.set(`org/${made.store.org_id}/${made.store.id}/f`, Buffer.from('rows'));
  const urls = new Map([
    [made.silent.destination_id, silent.url],
    [made.store.destination_id, store.url],
  ]);
  let was_asked = false;
  const patience = new AbortController();
  // The silent one is asked first, and the other one is cleared while it is waited for.
  const steps = createExportSteps(db, async ({ destination_id }) => {
    const url = urls.get(destination_id ?? '') ?? '';
    const target = open(url);
    if (url !== silent.url) return target;
    was_asked = true;
    const clear: typeof target.clear = (folder) => target.clear(folder, patience.signal);
    return { ...target, clear };
  });
  const running = steps.expireExports({ limit: 10 }, { signal });
  await until(() => was_asked && store.objects.size === 0);
  patience.abort(new DOMException('It has been long enough.', 'TimeoutError'));
  const { tried, failed } = await running;
  expect([tried, failed]).toEqual([2, [expect.stringContaining(made.silent.id)]]);
  const left = await db('exports').whereNull('cleared_at');
  expect(left).toMatchObject([{ id: made.silent.id }]);
});

test('drafts are for their process alone', async () => {
  const target = open(store.url);
  const { mode, uid } = await stat(path.dirname(await target.draft('org/a/exp/f', '1')));
  expect([mode & 0o777, uid]).toEqual([0o700, process.getuid?.()]);
  target.close();
});

test.each(['tidy', 'clear'] as const)(
  'uploads that a killed worker began, several pages of them, end with the %s of their export alone',
  async (way) => {
    store.uploads.clear();
    store.objects.clear();
    store.objects.set('org/a/exp/f', Buffer.from('rows'));
    for (const key of [...Array(8).fill('org/a/exp/f'), 'org/a/other/f'])
      await fetch(`${store.url}/${BUCKET}/${key}?uploads`, {
        method: 'POST',
        headers: { authorization: store_key.access_key_id },
      });
    const target = open(store.url);
    await target[way]('org/a/exp');
    expect(store.uploads.size).toBe(1);
    expect([...store.objects.keys()]).toEqual(way === 'clear' ? [] : ['org/a/exp/f']);
    target.close();
  },
);

test.each([
  ['AccessDenied', 403],
  ['NotImplemented', 501],
  ['MethodNotAllowed', 405],
])(
  'a store that answers %s to a list of uploads keeps no export from its end',
  async (code, status) => {
    store.objects.set('org/a/exp/f', Buffer.from('rows'));
    store.trouble = ({ query }) => (query.has('uploads') ? { status, code } : undefined);
    const target = open(store.url);
    await target.tidy('org/a/exp');
    await target.clear('org/a/exp');
    expect(store.objects.has('org/a/exp/f')).toBe(false);
    store.trouble = ({ query }) =>
      query.has('uploads') ? { status: 500, code: 'InternalError' } : undefined;
    await expect(target.tidy('org/a/exp')).rejects.toMatchObject({ code: 'export_target_failed' });
    store.trouble = () => undefined;
    target.close();
  },
);

/** An export that was canceled, and whose files are in a bucket of its organization. */
async function expired(url: string) {
  const { org_id } = await makeTenant(db);
  const given = { ...at(url), org_id, created_by: 'owner' };
  const { id: destination_id } = await destinations.create(db, secrets, given);
  const [row] = await db('exports')
    .insert({
      org_id,
      destination_id,
      kinds: ['ledger'],
      format: 'jsonl',
      target: 's3',
      status: 'canceled',
      from_time: new Date(0),
      to_time: new Date(),
      snapshot: db.raw('pg_current_snapshot()'),
      created_by: 'owner',
    })
    .returning(['id', 'org_id', 'destination_id']);
  return row;
}
