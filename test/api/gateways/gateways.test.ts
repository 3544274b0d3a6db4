import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { hashOf, parseSettings } from '../../../gateway/config/settings';
import { refusal, startApi, type TestApi } from '../../support/api';
import { leastOf } from '../../support/cpu';
import { gatewayToken, issueKey, platformKey } from '../../support/keys';
import { until } from '../../support/until';
import { makeRollout, plainConfig, reportGateway } from './making';

let api: TestApi;
let admin: string;
let machine: string;

beforeAll(async () => {
  api = await startApi();
  admin = await platformKey(api.db);
  machine = await gatewayToken(api.db);
});
afterAll(() => api.close());

const put = (body: object) => api.call('put', '/v1/admin/gateway-config', { key: admin, body });
const start = (body: object) => api.call('post', '/v1/admin/config-rollouts', { key: admin, body });

test('a configuration that no gateway could run is refused with every path, and makes no version', async () => {
  const bad = plainConfig({
    body_limit_bytes: 1,
    colour: 'red',
    timeouts: { idle_ms: 'long' },
  });
  const answer = await put({ config: bad });
  expect(refusal(answer)).toMatchObject({ status: 422, code: 'invalid_configuration' });
  const paths = answer.body.error.problems.map(({ path }: { path: string }) => path);
  expect(paths.sort()).toEqual(['body_limit_bytes', 'colour', 'timeouts.idle_ms']);
  const apart = plainConfig({ model_groups: [{ name: 'g', models: ['nobody-serves-it'] }] });
  expect((await put({ config: apart })).body.error).toMatchObject({
    param: 'config.model_groups[0].models',
    problems: [{ path: 'model_groups[0].models', message: expect.stringContaining('no target') }],
  });
  const rows = await api.db('gateway_configs').where({ config: JSON.stringify(bad) });
  expect(rows).toEqual([]);
});

test('which variables are set is neither asked nor told', async () => {
  process.env.TEST_SET_HERE = 'set';
  const answers = [];
  for (const api_key_env of ['TEST_SET_HERE', 'TEST_NOT_SET_HERE']) {
    const { targets } = plainConfig().providers as { targets: object[] };
    const config = { providers: { targets: targets.map((one) => ({ ...one, api_key_env })) } };
    answers.push((await put({ config, dry_run: true })).status);
  }
  expect(answers).toEqual([200, 200]);
  const { targets } = plainConfig().providers as { targets: object[] };
  const kept = { providers: { targets: targets.map((one) => ({ ...one, api_key_env: 'SVC_X' })) } };
  expect((await put({ config: kept, dry_run: true })).status).toBe(422);
});

test('a dry run refuses the rollout that would be refused', async () => {
  const group = `dry-${randomUUID()}`;
  const dry = (rollout: object) => put({ config: plainConfig(), dry_run: true, rollout });
  expect(refusal(await dry({ group }))).toMatchObject({ status: 422, param: 'group' });
  await reportGateway(api.db, { group_name: group });
  expect(refusal(await dry({ group, stages: [1] }))).toMatchObject({
    status: 422,
    param: 'stages',
  });
  expect(await dry({ group })).toMatchObject({
    status: 200,
    body: { version: null, rollout: null },
  });
});

test('a version has the hash that gateways give it, and what it changes of the one before', async () => {
  const first = (await put({ config: plainConfig({ body_limit_bytes: 2_048 }), note: 'one' })).body;
  const config = plainConfig({ body_limit_bytes: 4_096, stored_ids: 'pass' });
  const dry = (await put({ config, dry_run: true })).body;
  expect(dry).toMatchObject({ version: null, created_at: null, rollout: null });
  const second = (await put({ config, note: 'two' })).body;
  expect(second).toMatchObject({
    version: first.version + 1,
    note: 'two',
    is_staged: false,
    config_hash: hashOf(parseSettings(JSON.stringify(config))),
    change_count: 2,
    changes: [
      { path: 'body_limit_bytes', before: 2_048, after: 4_096 },
      { path: 'stored_ids', after: 'pass' },
    ],
  });
  expect(dry).toMatchObject({ config_hash: second.config_hash, changes: second.changes });
  expect(second.created_by).toMatch(/^key_/);
});

test.each([
  [{ stages: [1, '25%'] }, 'stages', 'must end with "100%"'],
  [{ stages: ['50%', '25%', '100%'] }, 'stages', 'must grow'],
  [{ stages: [3, 2, '100%'] }, 'stages', 'must grow'],
  [{ stages: [3, '10%', '100%'] }, 'stages', 'must grow'],
  [{ stages: [1, 1, '100%'] }, 'stages', 'must grow'],
  [{ stages: [0, '100%'] }, 'stages', ''],
  [{ stages: ['0%', '100%'] }, 'stages', ''],
  [{ stages: ['all'] }, 'stages', ''],
  [{ stages: [] }, 'stages', ''],
  [{ soak_s: -1 }, 'soak_s', ''],
  [{ max_error_ratio: 2 }, 'max_error_ratio', ''],
  [{ group: 'nobody-is-here' }, 'group', 'has no living gateway'],
  [{ group: 'a b' }, 'group', ''],
  [{ colour: 'red' }, 'colour', 'not a field'],
])('a rollout with %j is refused, and names the field', async (more, param, words) => {
  const group = 'refusing';
  for (let n = 0; n < 3; n += 1) await reportGateway(api.db, { group_name: group });
  const { version } = (await put({ config: plainConfig() })).body;
  const answer = await start({ version, group, ...more });
  expect(answer.status).toBe(422);
  expect(answer.body.error.param.split('.')[0]).toBe(param);
  expect(answer.body.error.message).toContain(words);
  // Together with its version, and as a dry run, it is refused in the same words.
  for (const dry_run of [false, true]) {
    const body = { config: plainConfig(), dry_run, rollout: { group, ...more } };
    const together = (await put(body)).body.error;
    expect(together.param.split('.').at(together.param.startsWith('rollout.') ? 1 : 0)).toBe(param);
    expect(together.message).toContain(words);
  }
});

test('a dry run of a rollout that could be answers and makes nothing', async () => {
  const group = `dry-${randomUUID()}`;
  await reportGateway(api.db, { group_name: group });
  const rollout = { group, stages: [1, '100%'] };
  const dry = await put({ config: plainConfig(), dry_run: true, rollout });
  expect(dry).toMatchObject({ status: 200, body: { is_staged: true, rollout: null } });
  expect(await api.db('config_rollouts').where({ group_name: group })).toEqual([]);
});

test('a rollout needs a version of a configuration, and the state for what is done to it', async () => {
  await reportGateway(api.db);
  expect(refusal(await start({ version: 999_999 }))).toMatchObject({
    status: 404,
    param: 'version',
  });
  const none = await api.call('delete', '/v1/admin/gateway-config', { key: admin });
  expect(refusal(await start({ version: none.body.version }))).toMatchObject({
    status: 422,
    param: 'version',
  });
  const id = await makeRollout(api.db);
  const act = (what: string) =>
    api.call('post', `/v1/admin/config-rollouts/${id}/${what}`, { key: admin });
  expect(refusal(await act('resume'))).toMatchObject({ status: 409, code: 'rollout_state' });
  expect((await act('abort')).body).toMatchObject({ status: 'aborted' });
  for (const what of ['pause', 'resume', 'promote', 'abort'])
    expect(refusal(await act(what))).toMatchObject({ status: 409, code: 'rollout_state' });
});

/** Waits for another configuration than the known one, as a gateway does. */
const poll = (known: string, query: string) =>
  api.call('get', `/v1/gateway/config?${query}`, {
    key: machine,
    headers: { 'if-none-match': known },
  });

test('a question waits for a change and hears of it within a second; without one it is 304', async () => {
  const { version } = (await put({ config: plainConfig() })).body;
  const quiet = performance.now();
  const same = await poll(`"${version}"`, 'gateway_id=a&wait_ms=700');
  expect(same.status).toBe(304);
  expect(performance.now() - quiet).toBeGreaterThan(650);
  let next = { version };
  let heard = same;
  // Of a second, or of the time of ten changes where the machine is busy.
  const share = await leastOf(5, 1, async () => {
    const waiting = poll(`"${next.version}"`, 'gateway_id=a&wait_ms=20000');
    await sleep(300);
    const changed_at = performance.now();
    next = (await put({ config: plainConfig({ body_limit_bytes: 1_000_000 + next.version }) }))
      .body;
    const put_ms = performance.now() - changed_at;
    heard = await waiting;
    return (performance.now() - changed_at) / Math.max(1_000, 10 * put_ms);
  });
  expect(share).toBeLessThan(1);
  expect(heard).toMatchObject({ status: 200, body: { version: next.version } });
  expect(heard.headers['x-svc-report-ms']).toBe('20000');
  await api.call('delete', '/v1/admin/gateway-config', { key: admin });
  expect((await poll(`"${next.version}"`, 'wait_ms=5000')).status).toBe(404);
  const none = performance.now();
  expect((await poll('"none"', 'wait_ms=500')).status).toBe(404);
  expect(performance.now() - none).toBeGreaterThan(450);
  expect(refusal(await poll('', 'wait_ms=25001'))).toMatchObject({ param: 'wait_ms' });
});

test('a hundred that wait hold no connection to the database', async () => {
  const { version } = (await put({ config: plainConfig() })).body;
  const waiting = Array.from({ length: 100 }, (_, n) =>
    poll(`"${version}"`, `gateway_id=g${n}&wait_ms=25000`),
  );
  const { pool } = api.db.client as { pool: { numUsed(): number } };
  let unused = 0;
  await until(() => {
    unused = pool.numUsed() === 0 ? unused + 1 : 0;
    return unused > 10;
  });
  await put({ config: plainConfig({ body_limit_bytes: 9_999 }) });
  const statuses = (await Promise.all(waiting)).map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([200]));
});

test('each gateway shows how it stands to what it is to run', async () => {
  const group_name = `drift-${randomUUID()}`;
  const made = (await put({ config: plainConfig() })).body;
  const runs = { config_version: BigInt(made.version), config_hash: made.config_hash };
  const long_ago = new Date(Date.now() - 120_000);
  const report = (more: object) => reportGateway(api.db, { group_name, ...more });
  const expected = {
    [await report(runs)]: 'in_sync',
    [await report({})]: 'applying',
    [await report({ refused_version: BigInt(made.version), error: 'no' })]: 'rejected',
    [await report({ ...runs, config_hash: 'another' })]: 'drifted',
    [await report({ ...runs, software_version: '1.2.0' })]: 'unsupported',
    [await report({ ...runs, software_version: '1.4.3', config_hash: 'of 1.4' })]: 'in_sync',
  };
  const silent = await report(runs);
  await api.db('gateways').where({ id: silent }).update({ seen_at: long_ago });
  const { body } = await api.call('get', `/v1/admin/gateways?group=${group_name}`, { key: admin });
  const drifts = Object.fromEntries(
    body.gateways.map(({ id, drift }: { id: string; drift: string }) => [id, drift]),
  );
  expect(drifts).toEqual({ ...expected, [silent]: 'silent' });
  expect(body.gateways[0]).toMatchObject({ desired_version: made.version, group: group_name });
  // A gateway that says that it stops leaves the list.
  const stopped = { id: silent, host: 'h', state: 'stopped', started_at: new Date() };
  const last = { ...stopped, config_version: null, config_hash: 'x', refused_version: null };
  await api.call('post', '/v1/gateway/config/report', {
    key: machine,
    body: { ...last, error: null },
  });
  await until(async () => {
    const list = await api.call('get', `/v1/admin/gateways?group=${group_name}`, { key: admin });
    return list.body.gateways.length === 6;
  });
});

/** The clock of a host that is wrong. */
function aheadBy(ms: number): DateConstructor {
  const Real = Date;
  const now = () => Real.now() + ms;
  return new Proxy(Real, {
    construct: (_, given) => Reflect.construct(Real, given.length === 0 ? [now()] : given),
    get: (_, name) => (name === 'now' ? now : Reflect.get(Real, name)),
  });
}

test('an API whose clock is ahead of the database calls no gateway silent that reports', async () => {
  const group_name = `ahead-${randomUUID()}`;
  const { version, config_hash } = (await put({ config: plainConfig() })).body;
  const runs = { config_version: BigInt(version), config_hash };
  const same = await reportGateway(api.db, { group_name, ...runs });
  const behind = await reportGateway(api.db, { group_name });
  const Real = Date;
  globalThis.Date = aheadBy(61_000);
  const { body } = await api
    .call('get', `/v1/admin/gateways?group=${group_name}`, { key: admin })
    .finally(() => {
      globalThis.Date = Real;
    });
  const drifts = body.gateways.map(({ id, drift }: { id: string; drift: string }) => [id, drift]);
  expect(Object.fromEntries(drifts)).toEqual({ [same]: 'in_sync', [behind]: 'applying' });
  expect(body.gateways[0]).not.toHaveProperty('now');
});

test('a key that was revoked gets no configuration, and nothing more after its next report', async () => {
  const { version } = (await put({ config: plainConfig() })).body;
  const { id, key } = await issueKey(api.db, null, { scopes: ['control_plane'] });
  const ask = (known: string, wait_ms: number, more: Record<string, string> = {}) =>
    api.call('get', `/v1/gateway/config?wait_ms=${wait_ms}`, {
      key,
      headers: { 'if-none-match': known, ...more },
    });
  expect((await ask(`"${version}"`, 50)).status).toBe(304);
  await api.db('tokens').where({ id }).update({ revoked_at: new Date() });
  const had = await ask(`"${version}"`, 1, { 'cache-control': 'no-cache' });
  expect([had.status, had.body]).toEqual([304, undefined]);
  expect((await ask(`"0${version}"`, 1)).status).toBe(401);
  expect((await ask('"1"', 1_000)).status).toBe(401);
  expect((await ask(`"${version}"`, 50)).status).toBe(401);
});

test.each(['in_flight', 'held'])(
  'a report of more calls in %s than 32 bits can say is refused',
  async (name) => {
    const who = { id: randomUUID(), host: 'h', started_at: new Date(), config_hash: 'x' };
    const runs = { ...who, config_version: null, refused_version: null, error: null };
    const report = (calls: number) =>
      api.call('post', '/v1/gateway/config/report', {
        key: machine,
        body: { ...runs, [name]: calls },
      });
    expect(refusal(await report(2_147_483_648))).toMatchObject({ status: 422, param: name });
    expect((await report(2_147_483_647)).status).toBe(200);
  },
);
