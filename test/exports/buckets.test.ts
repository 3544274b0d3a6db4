import { createHash } from 'node:crypto';
import { request } from 'undici';
import { openStore } from '../../exports/s3';
import { isInner } from '../../runtime/inner';
import { makeTenant, refusal, serve, type Tenant } from '../support/api';
import { until } from '../support/until';
import { type ObjectStore, openObjectStore, store_key } from './object-store';
import { download, type ExportWorld, ended, lastHour, openExportWorld, rowsIn } from './world';

// Exports to a bucket of an organization: with its own credentials, below its own folder, to a
// store that the operator has listed.

const BUCKET = 'acme-exports';

let store: ObjectStore;
let world: ExportWorld;
let tenant: Tenant;

beforeAll(async () => {
  store = await openObjectStore(BUCKET);
  world = await openExportWorld([store.url]);
});

beforeEach(async () => {
  tenant = await makeTenant(world.db);
  store.trouble = () => undefined;
  store.trouble_after = () => undefined;
});

afterAll(async () => {
  await world.close();
  await store.close();
});

function destine(more: object = {}, key = tenant.owner_key) {
  const body = {
    endpoint: store.url,
    region: 'eu-central-1',
    bucket: BUCKET,
    ...store_key,
    ...more,
  };
  return world.call('post', '/v1/export-destinations', { key, body });
}

async function ask(destination_id: string, more: object = {}) {
  const period = await lastHour();
  const body = { kinds: ['audit_log', 'statement'], ...period, destination_id, ...more };
  return world.call('post', '/v1/exports', { key: tenant.owner_key, body });
}

test('files are in the bucket below the folder of their organization; a reader is sent there for 5 minutes', async () => {
  const made = await destine();
  expect(made.body).toMatchObject({ org_id: tenant.org_id, bucket: BUCKET });
  expect(made.text).not.toContain(store_key.secret_access_key);
  const [row] = await world.db('export_destinations').where({ id: made.body.id });
  expect(JSON.stringify(row)).not.toContain(store_key.secret_access_key);
  const log = await world.call('get', `/v1/audit-log?object_id=${made.body.id}`, {
    key: tenant.owner_key,
  });
  expect(log.body.audit_log).toMatchObject([
    { action: 'export_destination.created', after: { credentials: { changed: true } } },
  ]);
  for (const secret of Object.values(store_key)) expect(log.text).not.toContain(secret);
  const exporter = await world.startExporter();
  const asked = await ask(made.body.id);
  const done = await ended(world, tenant.owner_key, asked.body.id);
  await exporter.stop();
  expect(done).toMatchObject({ status: 'completed', target: 's3', destination_id: made.body.id });
  const folder = `org/${tenant.org_id}/${done.id}/`;
  const names = [...store.objects.keys()];
  expect(names.filter((name) => !name.startsWith(folder))).toEqual([]);
  const file = done.files.find(
    (one: { kind: string; rows: number }) => one.kind === 'audit_log' && one.rows > 0,
  );
  const sent = await download(world, tenant.owner_key, `${done.id}/files/${file.n}`);
  expect(sent.status).toBe(302);
  const url = new URL(String(sent.headers.location));
  expect([url.origin, url.searchParams.get('X-Amz-Expires')]).toEqual([store.url, '300']);
  const bytes = Buffer.from(await (await request(url)).body.arrayBuffer());
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(file.sha256);
  expect(rowsIn(bytes)).toHaveLength(file.rows);
  const [audited] = await world.db('audit_events').where({ object_id: made.body.id });
  expect(audited).toMatchObject({ action: 'export_destination.created' });
  expect(JSON.stringify(audited)).toContain('"credentials":{"changed":true}');
});

test.each([
  ['a bucket that is not there', { bucket: 'nobodys' }, 'bucket', 'no such bucket'],
  [
    'a key that the store does not know',
    { access_key_id: 'AKIAOTHER' },
    'access_key_id',
    'does not know',
  ],
  [
    'an endpoint that nobody listed',
    { endpoint: 'https://s3.example.com' },
    'endpoint',
    'none of the object stores',
  ],
  [
    'an endpoint with a path',
    { endpoint: 'https://s3.example.com/a' },
    'endpoint',
    'must be an origin',
  ],
  [
    'the metadata of a cloud',
    { endpoint: 'http://169.254.169.254' },
    'endpoint',
    'none of the object stores',
  ],
])('%s is said as the destination is made', async (_, more, param, words) => {
  const answer = await destine(more);
  expect(refusal(answer)).toMatchObject({ status: 422, param });
  expect(answer.body.error.message).toContain(words);
  expect(await world.db('export_destinations').where({ org_id: tenant.org_id })).toEqual([]);
});

test('without listed stores there is no destination, whatever is asked', async () => {
  const { db, temporal, dir } = world;
  const api = await serve({ db, temporal, export_dir: dir });
  const body = { endpoint: store.url, region: 'a', bucket: BUCKET, ...store_key };
  const answer = await api.call('post', '/v1/export-destinations', { key: tenant.owner_key, body });
  expect(refusal(answer)).toMatchObject({ status: 422, code: 'export_target_refused' });
  expect(answer.body.error.message).toContain('EXPORT_S3_ORIGINS');
  await api.close();
});

test("another organization's destination, the platform's and one out of use are not found", async () => {
  const other = await makeTenant(world.db);
  const theirs = (await destine({}, other.owner_key)).body.id;
  const platforms = (await destine({}, world.platform)).body;
  expect(platforms.org_id).toBe(null);
  const own = (await destine()).body.id;
  const path = `/v1/export-destinations/${own}`;
  expect((await world.call('delete', path, { key: other.owner_key })).status).toBe(404);
  expect((await world.call('delete', path, { key: tenant.owner_key })).status).toBe(200);
  for (const id of [theirs, platforms.id, own, 'dest_unknown'])
    expect(refusal(await ask(id))).toEqual({
      status: 404,
      code: 'not_found',
      param: 'destination_id',
    });
  const { body } = await world.call('get', '/v1/export-destinations', { key: tenant.owner_key });
  expect(body.destinations).toEqual([]);
});

test('credentials that are revoked are said as the next export is made; one that runs fails in words', async () => {
  const { id } = (await destine()).body;
  const running = await ask(id);
  store.trouble = () => ({ status: 403, code: 'AccessDenied' });
  expect(refusal(await ask(id))).toMatchObject({ status: 422, code: 'export_target_refused' });
  const exporter = await world.startExporter();
  const failed = await ended(world, tenant.owner_key, running.body.id);
  expect(failed).toMatchObject({ status: 'failed', error_code: 'export_target_refused' });
  expect(failed.error_message).toContain('does not let these credentials write');
  // A bucket that refuses is no fault of a worker.
  expect(await world.client.workflow.getHandle(running.body.id).result()).toBe('failed');
  await exporter.stop();
});

test('a repeat under an Idempotency-Key has its answer, whatever the bucket says by now', async () => {
  const { id: destination_id } = (await destine()).body;
  const period = await lastHour();
  const body = { kinds: ['statement'], ...period, destination_id };
  const given = { key: tenant.owner_key, body, headers: { 'idempotency-key': 'once' } };
  const first = await world.call('post', '/v1/exports', given);
  store.trouble = () => ({ status: 403, code: 'AccessDenied' });
  const again = await world.call('post', '/v1/exports', given);
  expect([first.status, again.status, again.text]).toEqual([201, 201, first.text]);
  const other = { ...given, body: { ...body, kinds: ['ledger'] } };
  const answer = await world.call('post', '/v1/exports', other);
  expect(refusal(answer)).toMatchObject({ status: 422, code: 'idempotency_key_reused' });
});

test('a store that fails after it has kept the upload gets the same bytes once more, under the same name', async () => {
  const { id } = (await destine()).body;
  let failures = 0;
  store.trouble_after = ({ key }) => {
    if (key.endsWith('.svc-probe') || failures > 4) return undefined;
    failures += 1;
    return { status: 500, code: 'InternalError' };
  };
  const exporter = await world.startExporter();
  const done = await ended(world, tenant.owner_key, (await ask(id)).body.id);
  await exporter.stop();
  expect(done.status).toBe('completed');
  expect(failures).toBe(5);
  const folder = `org/${tenant.org_id}/${done.id}/`;
  const names = [...store.objects.keys()].filter((name) => name.startsWith(folder));
  const written = done.files.filter((one: { sha256: string | null }) => one.sha256 !== null);
  expect(names).toHaveLength(written.length);
  for (const { sha256 } of written)
    expect(
      names.some(
        (name) =>
          createHash('sha256')
            .update(store.objects.get(name) ?? '')
            .digest('hex') === sha256,
      ),
    ).toBe(true);
});

test('a store that refuses to delete keeps the files of no other export', async () => {
  const { db } = world;
  const { id } = (await destine()).body;
  const exporter = await world.startExporter();
  const kept = (await ended(world, tenant.owner_key, (await ask(id)).body.id)).id;
  const gone = (await ended(world, tenant.owner_key, (await ask(id)).body.id)).id;
  await db('exports').whereIn('id', [kept, gone]).update({ expires_at: new Date() });
  store.trouble = ({ query }) =>
    query.get('prefix')?.includes(kept) ? { status: 503, code: 'SlowDown' } : undefined;
  const run = { taskQueue: 'export', workflowId: `upkeep-${kept}` };
  const result = await world.client.workflow.execute('exportUpkeep', run);
  await exporter.stop();
  expect(result).toMatchObject({ failed: [expect.stringContaining(kept)] });
  const left = [...store.objects.keys()].filter((name) => name.includes(tenant.org_id));
  expect(left.every((name) => name.includes(kept))).toBe(true);
  expect(left.length).toBeGreaterThan(0);
});

test('an export that is canceled while its file travels leaves nothing in the bucket', async () => {
  const { id } = (await destine()).body;
  const exporter = await world.startExporter();
  let reached = 0;
  store.trouble = ({ method, key }) => {
    if (method !== 'PUT' || key.endsWith('.svc-probe')) return undefined;
    reached += 1;
    return { status: 503, code: 'SlowDown' };
  };
  const asked = (await ask(id)).body.id;
  await world.dispatch();
  await until(() => reached > 0);
  await world.call('delete', `/v1/exports/${asked}`, { key: tenant.owner_key });
  store.trouble = () => undefined;
  await until(async () => {
    await world.dispatch();
    const [row] = await world.db('exports').where({ id: asked });
    return row.cleared_at !== null;
  });
  await exporter.stop();
  expect([...store.objects.keys()].filter((name) => name.includes(asked))).toEqual([]);
});

test('names that mean an inner, link-local or metadata address are not connected to', () => {
  for (const address of [
    '10.1.2.3',
    '127.0.0.1',
    '172.20.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '169.254.169.254',
    '::1',
    'fd12::1',
    '::ffff:10.0.0.1',
    '64:ff9b::a00:1',
    '64:ff9b::127.0.0.1',
    '64:ff9b:1:a00:0:100:808:808',
    '2002:c0a8:101::1',
    'fe80::1',
  ])
    expect([address, isInner(address)]).toEqual([address, true]);
  for (const address of ['52.219.72.1', '2600:1fa0::1', '8.8.8.8', '64:ff9b::808:808'])
    expect([address, isInner(address)]).toEqual([address, false]);
});

test('a store at a metadata address is refused in words, also where the operator lists it', () => {
  const endpoint = 'http://169.254.169.254';
  const at = { endpoint, region: 'a', bucket: 'b', access_key_id: 'k', secret_access_key: 's' };
  const open = () => openStore({ destination: at, origins: [endpoint], probe_folder: 'org/a/' });
  expect(open).toThrow(
    expect.objectContaining({ code: 'export_target_refused', details: { param: 'endpoint' } }),
  );
});
