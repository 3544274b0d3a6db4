import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { makeTenant, refusal, serve, type Tenant } from '../support/api';
import { until } from '../support/until';
import { afterWritten, download, type ExportWorld, ended, openExportWorld } from './world';

// Who may ask for an export, for which period, and who reads its files.

let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  world = await openExportWorld();
  tenant = await makeTenant(world.db);
});

afterAll(() => world.close());

const HOUR_MS = 3_600_000;
const daysAgo = (days: number) => new Date(Date.now() - days * 24 * HOUR_MS);
const june = { from: '2026-06-01', to: '2026-06-03' };

function ask(body: object, key = tenant.owner_key, headers = {}) {
  const asked = { kinds: ['ledger'], ...june, ...body };
  return world.call('post', '/v1/exports', { key, body: asked, headers });
}

test.each([
  ['ends before it begins', { from: '2026-06-03', to: '2026-06-01' }, 'to'],
  ['is empty', { from: '2026-06-01', to: '2026-06-01' }, 'to'],
  ['ends in the future', { to: new Date(Date.now() + HOUR_MS) }, 'to'],
  ['is over 13 months', { from: '2025-05-01', to: '2026-06-02' }, 'to'],
  ['is over 13 months to a shorter one', { from: '2024-01-31', to: '2025-03-01' }, 'to'],
  ['begins at no time', { from: 'yesterday' }, 'from'],
])('a period that %s is refused with its field', async (_, body, param) => {
  const answer = await ask(body);
  expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param });
});

test.each([
  ['an unknown kind', { kinds: ['ledger', 'secrets'] }, 'kinds.1', 'invalid_field'],
  ['a kind twice', { kinds: ['ledger', 'ledger'] }, 'kinds', 'invalid_field'],
  ['no kind', { kinds: [] }, 'kinds', 'invalid_field'],
  ['an unknown format', { format: 'xlsx' }, 'format', 'invalid_field'],
  ['an unknown field', { columns: ['id'] }, 'columns', 'unknown_field'],
])('%s is refused with its field', async (_, body, param, code) => {
  expect(refusal(await ask(body))).toEqual({ status: 422, code, param });
});

test('13 months to the day are taken', async () => {
  const { db } = world;
  const answer = await ask({ from: '2025-05-01', to: '2026-06-01' });
  expect(answer.status).toBe(201);
  expect(answer.body).toMatchObject({ status: 'running', parts_total: 397, parts_done: 0 });
  await world.call('delete', `/v1/exports/${answer.body.id}`, { key: tenant.owner_key });
  expect(await db('export_files').where({ export_id: answer.body.id })).toHaveLength(397);
});

test('events that are deleted are refused with the day of the oldest, and other kinds of that time are not', async () => {
  const { owner_key: key } = await makeTenant(world.db);
  const old = { from: daysAgo(92), to: daysAgo(1) };
  for (const kinds of [['events'], ['ledger', 'events']]) {
    const answer = await ask({ kinds, ...old }, key);
    expect(refusal(answer)).toEqual({ status: 422, code: 'invalid_field', param: 'from' });
    expect(answer.body.error.message).toMatch(/ \d{4}-\d\d-\d\dT00:00:00\.000Z at the earliest/);
    const [, oldest = ''] = /be (\S+) at/.exec(answer.body.error.message) ?? [];
    expect((await ask({ kinds, from: oldest, to: daysAgo(1) }, key)).status).toBe(201);
  }
  expect((await ask({ kinds: ['ledger', 'audit_log'], ...old }, key)).status).toBe(201);
  for (const every of ['day', 'month'])
    for (const [kinds, status] of [
      [['events'], 422],
      [['ledger'], 201],
    ]) {
      const body = { kinds, every, from: daysAgo(92) };
      const made = await world.call('post', '/v1/export-schedules', { key, body });
      expect([every, kinds, made.status]).toEqual([every, kinds, status]);
    }
});

test('events need events:read too and the audit log org:members, as they are asked for and at each file', async () => {
  for (const kind of ['events', 'audit_log'])
    expect(refusal(await ask({ kinds: ['ledger', kind] }, tenant.billing_key))).toEqual({
      status: 403,
      code: 'permission_denied',
      param: 'kinds',
    });
  const other = await makeTenant(world.db);
  const kept = { from: daysAgo(10), to: daysAgo(9) };
  const { body } = await ask({ kinds: ['events'], ...kept }, other.owner_key);
  const exporter = await world.startExporter();
  await ended(world, other.owner_key, body.id);
  await exporter.stop();
  expect((await download(world, other.owner_key, `${body.id}/files/0`)).status).toBe(200);
  expect((await download(world, other.billing_key, `${body.id}/files/0`)).status).toBe(403);
  // Nor do they see by their sums which events there were.
  const of = async (key: string) =>
    (await world.call('get', `/v1/exports/${body.id}`, { key })).body;
  for (const { sums, first_id } of (await of(other.billing_key)).files.slice(1))
    expect([sums, first_id]).toEqual([null, null]);
  expect((await of(other.owner_key)).files[1].sums).toEqual([]);
});

test('one runs and five wait; one more is 429, and the next one starts as one is canceled', async () => {
  const other = await makeTenant(world.db);
  const key = other.owner_key;
  const made = [];
  for (let n = 0; n < 6; n += 1) made.push((await ask({}, key)).body);
  expect(made.map(({ status }) => status)).toEqual(['running', ...Array(5).fill('queued')]);
  expect(refusal(await ask({}, key))).toMatchObject({ status: 429, code: 'exports_exceeded' });
  // Another organization does not wait for them.
  expect((await ask({}, (await makeTenant(world.db)).owner_key)).body.status).toBe('running');
  const canceled = await world.call('delete', `/v1/exports/${made[0].id}`, { key });
  expect(canceled.body).toMatchObject({ status: 'canceled' });
  const again = await world.call('delete', `/v1/exports/${made[0].id}`, { key });
  expect(again.body).toMatchObject({ status: 'canceled', ended_at: canceled.body.ended_at });
  const { body } = await world.call('get', '/v1/exports?per_page=10', { key });
  expect(body.exports.map((one: { status: string }) => one.status).reverse()).toEqual([
    'canceled',
    'running',
    ...Array(4).fill('queued'),
  ]);
});

test('askers at once: never two of one organization run, never more than five wait', async () => {
  const { owner_key: key } = await makeTenant(world.db);
  const answers = await Promise.all(Array.from({ length: 12 }, () => ask({}, key)));
  expect(answers.map(({ status }) => status).sort()).toEqual([
    ...Array(6).fill(201),
    ...Array(6).fill(429),
  ]);
  const { body } = await world.call('get', '/v1/exports?status=running', { key });
  expect(body.total).toBe(1);
});

test('the same Idempotency-Key is the same export', async () => {
  const { owner_key: key } = await makeTenant(world.db);
  const headers = { 'idempotency-key': randomUUID() };
  const first = await ask({}, key, headers);
  const second = await ask({}, key, headers);
  expect(second.body.id).toBe(first.body.id);
  expect((await world.call('get', '/v1/exports', { key })).body.total).toBe(1);
});

test('one too many is not kept under its Idempotency-Key: asked for again later, it is made', async () => {
  const { owner_key: key } = await makeTenant(world.db);
  const made = [];
  for (let n = 0; n < 6; n += 1) made.push((await ask({}, key)).body);
  const headers = { 'idempotency-key': randomUUID() };
  const refused = await ask({}, key, headers);
  expect(refusal(refused)).toMatchObject({ status: 429, code: 'exports_exceeded' });
  expect(refused.headers).toMatchObject({
    'x-should-retry': 'false',
    'x-ratelimit-limit': '5',
    'x-ratelimit-remaining': '0',
  });
  await world.call('delete', `/v1/exports/${made[5].id}`, { key });
  const taken = await ask({}, key, headers);
  expect(taken).toMatchObject({ status: 201, body: { status: 'queued' } });
  expect((await ask({}, key, headers)).body.id).toBe(taken.body.id);
});

test("another organization's export is not found, whatever is asked of it", async () => {
  const other = await makeTenant(world.db);
  const { id } = (await ask({}, other.owner_key)).body;
  for (const [method, at] of [
    ['get', ''],
    ['delete', ''],
    ['get', '/files/0'],
    ['get', '/files/1'],
  ] as const)
    expect(
      refusal(await world.call(method, `/v1/exports/${id}${at}`, { key: tenant.owner_key })),
    ).toMatchObject({ status: 404, code: 'not_found' });
  const platform = await world.call('post', '/v1/admin/exports', {
    key: world.platform,
    body: { kinds: ['ledger'], ...june },
  });
  const own = await world.call('get', `/v1/exports/${platform.body.id}`, { key: tenant.owner_key });
  expect(own.status).toBe(404);
  expect((await world.call('get', `/v1/exports/${id}`, { key: world.platform })).status).toBe(200);
});

test('a file is read whole, in ranges, or not again; its ETag is its SHA-256', async () => {
  const other = await makeTenant(world.db);
  const key = other.owner_key;
  const exporter = await world.startExporter();
  const from = new Date(Date.now() - HOUR_MS);
  const { id } = (
    await ask({ kinds: ['audit_log'], from, to: await afterWritten(), format: 'csv' }, key)
  ).body;
  expect((await download(world, key, `${id}/files/0`)).status).toBe(409);
  const done = await ended(world, key, id);
  await exporter.stop();
  const file = done.files.find((one: { rows: number }) => one.rows > 0);
  const at = `${id}/files/${file.n}`;
  const whole = await download(world, key, at);
  expect(whole.status).toBe(200);
  expect(whole.bytes).toHaveLength(file.bytes);
  expect(whole.headers).toMatchObject({
    etag: `"${file.sha256}"`,
    'accept-ranges': 'bytes',
    'content-type': 'application/gzip',
    'content-disposition': `attachment; filename="audit_log-${file.day}.csv.gz"`,
  });
  const range = (value: string, more = {}) => download(world, key, at, { range: value, ...more });
  const size = whole.bytes.length;
  for (const [value, start, end] of [
    ['bytes=0-9', 0, 10],
    ['bytes=5-', 5, size],
    ['bytes=-7', size - 7, size],
    ['bytes=3-99999999', 3, size],
  ] as const) {
    const part = await range(value);
    expect([value, part.status, part.headers['content-range']]).toEqual([
      value,
      206,
      `bytes ${start}-${end - 1}/${size}`,
    ]);
    expect(part.bytes).toEqual(whole.bytes.subarray(start, end));
  }
  for (const value of ['bytes=0-1,4-5', 'lines=1-2', 'bytes=9-3'])
    expect([value, (await range(value)).status]).toEqual([value, 200]);
  const beyond = await range(`bytes=${size}-`);
  expect([beyond.status, beyond.headers['content-range']]).toEqual([416, `bytes */${size}`]);
  expect((await range('bytes=0-9', { 'if-range': '"other"' })).status).toBe(200);
  expect((await range('bytes=0-9', { 'if-range': `"${file.sha256}"` })).status).toBe(206);
  const known = await download(world, key, at, { 'if-none-match': `"${file.sha256}"` });
  expect([known.status, known.bytes.length]).toEqual([304, 0]);
  expect((await download(world, key, `${id}/files/99`)).status).toBe(404);
  // An error bears neither the file's name nor its tag.
  await rm(path.join(world.dir, 'org', other.org_id, id), { recursive: true });
  for (const lost of [await download(world, key, at), await range('bytes=0-9'), beyond]) {
    expect(lost.headers['content-type']).toContain('application/json');
    for (const name of ['etag', 'content-disposition', 'accept-ranges'])
      expect(lost.headers).not.toHaveProperty(name);
  }
  const lost = await range('bytes=0-9');
  expect([lost.status, lost.headers['content-range']]).toEqual([404, undefined]);
});

test('an API whose folder is not that of the workers says so, and asks for nothing', async () => {
  const { db, temporal, dir } = world;
  const key = tenant.owner_key;
  const before = await db('exports').count();
  for (const export_dir of [undefined, path.join(dir, 'nowhere')]) {
    const api = await serve({ db, temporal, export_dir });
    const body = { kinds: ['ledger'], ...june };
    const answer = await api.call('post', '/v1/exports', { key, body });
    expect(refusal(answer)).toMatchObject({ status: 503, code: 'export_dir_not_shared' });
    expect(answer.headers['retry-after']).toBe('30');
    await api.close();
  }
  expect(await db('exports').count()).toEqual(before);
});

test('a worker with another folder than the others writes nothing there; a right one takes over', async () => {
  const other = await makeTenant(world.db);
  const key = other.owner_key;
  const wrong = path.join(world.dir, '..', `svc-wrong-${randomUUID()}`);
  const stray = await world.startExporter({ dir: wrong });
  const from = new Date(Date.now() - HOUR_MS);
  const { id } = (await ask({ kinds: ['audit_log'], from, to: await afterWritten() }, key)).body;
  await world.dispatch();
  await until(async () => {
    const { raw } = await world.client.workflow.getHandle(id).describe();
    return raw.pendingActivities?.some((one) => (one.attempt ?? 0) > 1) === true;
  });
  await stray.stop();
  const exporter = await world.startExporter();
  expect(await ended(world, key, id)).toMatchObject({ status: 'completed' });
  await exporter.stop();
  await rm(wrong, { recursive: true, force: true });
});
