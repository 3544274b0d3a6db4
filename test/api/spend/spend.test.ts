import { openBatches } from '../../../api/ledger/batches';
import * as editions from '../../../domain/spend/editions';
import { type Db, many } from '../../../domain/sql';
import { createLog } from '../../../runtime/log';
import { ledgerNanos, call as settled } from '../../domain/spend/world';
import {
  type CallApi,
  makePerson,
  makeTenant,
  type Person,
  startApi,
  type Tenant,
} from '../../support/api';
import { makeKeyId, platformKey } from '../../support/keys';
import { credit, makePrice } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let lanes: ReturnType<typeof openBatches>;
let tenant: Tenant;
let other: Tenant;
let leader: Person;
let key_id: string;

const other_model = { provider: 'anthropic', model: '=HYPERLINK("x")' };

beforeAll(async () => {
  let stop: () => Promise<void>;
  ({ db, call, close: stop } = await startApi());
  lanes = openBatches(db, createLog('test', 'fatal'));
  close = async () => {
    await lanes.close();
    await stop();
  };
  await makePrice(db);
  await makePrice(db, other_model);
  [tenant, other] = [await makeTenant(db), await makeTenant(db)];
  await credit(db, tenant.org_id, tenant.wallet_id, 10n ** 12n);
  leader = await makePerson({ db, call }, tenant, 'member');
  await many(
    db,
    `insert into team_members (team_id, user_id, role) values (:team_id, :user_id, 'admin')`,
    { team_id: tenant.team_id, user_id: leader.user_id },
  );
  key_id = await makeKeyId(db, tenant.org_id, {
    user_id: tenant.member_id,
    team_id: tenant.team_id,
  });
  const { org_id, member_id: user_id, team_id, agent_id } = tenant;
  const at = (day: number) => new Date(Date.UTC(2026, 9, day, 12));
  const ledger = { db, lanes };
  const ofTeam = { user_id, team_id, key_id, family: 'chat' };
  await settled(ledger, org_id, 1, at(1), {
    ...ofTeam,
    tags: ['nightly', 'report'],
    session_id: 's1',
  });
  await settled(ledger, org_id, 2, at(2), {
    ...ofTeam,
    ...other_model,
    agent_id,
    session_id: 's1',
  });
  await settled(ledger, org_id, 4, at(2), { user_id, tags: ['nightly'], session_id: 's2' });
  await settled(ledger, org_id, 8, at(3), { user_id: leader.user_id });
  await settled(ledger, org_id, 16, at(3));
});

afterAll(() => close());

const month = 'from=2026-10-01&to=2026-11-01';

const get = (path: string, key = tenant.billing_key, headers = {}) =>
  call('get', path, { key, headers });

/** Tokens by group, as costs say. */
async function topBy(by: string, key?: string, more = ''): Promise<Record<string, number>> {
  const { status, body } = await get(`/v1/spend/top?by=${by}&${month}${more}`, key);
  expect(status).toBe(200);
  return Object.fromEntries(
    body.groups.map(({ group, cost }: { group: Record<string, string>; cost: number }) => [
      group[by],
      Math.round(cost * 1e6),
    ]),
  );
}

describe.each([['as it is settled'], ['folded']])('%s', (how) => {
  beforeAll(async () => {
    if (how !== 'folded') return;
    await editions.openEditions(db);
    while ((await editions.foldStep(db, 3)) > 0);
  });

  test('every dimension adds up to the ledger; what has none is null', async () => {
    const { member_id, team_id, agent_id } = tenant;
    expect(await topBy('model')).toEqual({ 'gpt-4o-mini': 29, [other_model.model]: 2 });
    expect(await topBy('provider')).toEqual({ openai: 29, anthropic: 2 });
    expect(await topBy('team')).toEqual({ [team_id]: 3, null: 28 });
    expect(await topBy('user')).toEqual({ [member_id]: 7, [leader.user_id]: 8, null: 16 });
    expect(await topBy('agent')).toEqual({ [agent_id]: 2, null: 29 });
    expect(await topBy('key')).toEqual({ [key_id]: 3, null: 28 });
    expect(await topBy('family')).toEqual({ chat: 3, null: 28 });
    expect(await topBy('session')).toEqual({ s1: 3, s2: 4, null: 24 });
    const { body } = await get(`/v1/spend?${month}`);
    expect(BigInt(Math.round(body.totals.cost * 1e9))).toBe(await ledgerNanos(db, tenant.org_id));
    expect(body.totals).toEqual({
      cost: 31e-6,
      requests: 5,
      prompt_tokens: 31,
      completion_tokens: 0,
      cached_tokens: 0,
    });
  });

  test('a call counts under each of its tags, and once in the totals', async () => {
    expect(await topBy('tag')).toEqual({ nightly: 5, report: 1 });
    const { body } = await get(`/v1/spend/top?by=tag&${month}`);
    expect(body.totals).toMatchObject({ cost: 31e-6, requests: 5 });
    expect(await topBy('model', undefined, '&tag=nightly')).toEqual({ 'gpt-4o-mini': 5 });
  });

  test('members see their own, admins of a team also what it spends, whoever bills all', async () => {
    const { member_id, team_id, member_key } = tenant;
    expect(await topBy('user', member_key)).toEqual({ [member_id]: 7 });
    expect(await topBy('user', leader.key)).toEqual({ [member_id]: 3, [leader.user_id]: 8 });
    expect(await topBy('team', leader.key)).toEqual({ [team_id]: 3, null: 8 });
    expect(await topBy('session', leader.key)).toEqual({ s1: 3, null: 8 });
    expect(await topBy('tag', leader.key)).toEqual({ nightly: 1, report: 1 });
    expect(await topBy('user', member_key, `&user_id=${leader.user_id}`)).toEqual({});
  });

  test('groups in days and months, the dearest first, and of one session', async () => {
    const { body } = await get(`/v1/spend?${month}&group_by=provider,team`);
    expect(body).toMatchObject({ time_zone: 'UTC', currency: 'USD', truncated: false });
    expect(
      body.buckets.map(({ local, group, cost }: Record<string, never>) => [local, group, cost]),
    ).toEqual([
      ['2026-10-01', { provider: 'openai', team: tenant.team_id }, 1e-6],
      ['2026-10-02', { provider: 'openai', team: null }, 4e-6],
      ['2026-10-02', { provider: 'anthropic', team: tenant.team_id }, 2e-6],
      ['2026-10-03', { provider: 'openai', team: null }, 24e-6],
    ]);
    const months = await get(`/v1/spend?${month}&interval=month&session_id=s1&group_by=session`);
    expect(months.body.buckets).toMatchObject([
      { local: '2026-10', start: '2026-10-01T00:00:00.000Z', group: { session: 's1' }, cost: 3e-6 },
    ]);
  });
});

test('CSV is exact, and no cell of it is a formula', async () => {
  const csv = { accept: 'text/csv' };
  const { headers, text } = await get(`/v1/spend?${month}&group_by=model`, undefined, csv);
  expect(headers['content-type']).toBe('text/csv; charset=utf-8');
  expect(headers['x-svc-truncated']).toBe('false');
  const lines = text.trimEnd().split('\r\n');
  expect(lines).toHaveLength(5);
  expect(lines[0]).toBe(
    'start,local,model,currency,cost,requests,prompt_tokens,completion_tokens,cached_tokens',
  );
  expect(lines[3]).toBe(
    `2026-10-02T00:00:00.000Z,2026-10-02,"'=HYPERLINK(""x"")",USD,0.000002,1,2,0,0`,
  );
  const top = await get(`/v1/spend/top?by=user&${month}`, undefined, csv);
  expect(top.text).toContain(`\r\n,,USD,0.000016,1,16,0,0\r\n`);
  const days = await get(`/v1/spend?${month}&group_by=team`, undefined, csv);
  expect(days.text).toMatch(new RegExp(`,${tenant.team_id},Team \\w+,USD,`));
});

test.each([
  ['from=2026-10-02&to=2026-10-02', 'to'],
  ['from=2026-10-03&to=2026-10-02', 'to'],
  ['from=2025-01-01&to=2026-10-02', 'to'],
  ['from=2126-01-01&to=2126-02-01', 'from'],
  ['from=yesterday', 'from'],
  [`from=2026-10-01T00:00:00.${'0'.repeat(200)}Z`, 'from'],
  ['from=0000-01-01', 'from'],
  ['to=0000-01-01', 'to'],
  ['from=2026-10-01T00:00:00%2B23:59', 'from'],
  ['to=2026-10-01T00:00:00-23:59', 'to'],
  ['interval=hour&to=9999-12-31T23:59:59-23:59', 'to'],
  ['from=2026-10-01T01:00:00Z&to=2026-10-02', 'from'],
  ['interval=hour&from=2026-10-01T00:30:00Z&to=2026-10-02', 'from'],
  ['interval=hour&from=2026-01-01&to=2026-01-02', 'from'],
  ['interval=week', 'interval'],
  ['group_by=colour', 'group_by.0'],
  ['group_by=model,team,user', 'group_by'],
  ['group_by=model,model', 'group_by'],
  ['group_by=session', 'group_by'],
  ['group_by=tag&interval=hour', 'interval'],
  ['tag=a&session_id=b', 'tag'],
  ['time_zone=Mars/Olympus', 'time_zone'],
])('%s is refused at %s', async (query, param) => {
  const { status, body } = await get(`/v1/spend?${query}`);
  expect([status, body.error.param]).toEqual([422, param]);
});

test('sessions are ranked over 31 days, and refused over 32', async () => {
  const ranked = (to: string) => get(`/v1/spend/top?by=session&from=2026-10-01&to=${to}`);
  expect((await ranked('2026-11-01')).status).toBe(200);
  const { status, body } = await ranked('2026-11-02');
  expect([status, body.error.param]).toEqual([422, 'to']);
});

test('an instant means the same in every offset, also in one that no country has', async () => {
  const query = `from=${encodeURIComponent('2026-10-01T23:00:00+23:00')}&to=2026-11-01`;
  const { body } = await get(`/v1/spend?${query}`);
  expect(body.totals).toEqual((await get(`/v1/spend?${month}`)).body.totals);
});

test("ids of another organization are not found, in every filter and as the organization's own", async () => {
  const foreign = {
    team_id: other.team_id,
    user_id: other.member_id,
    agent_id: other.agent_id,
    key_id: await makeKeyId(db, other.org_id),
  };
  for (const path of ['/v1/spend', '/v1/spend/top'])
    for (const [param, id] of [...Object.entries(foreign), ['org_id', other.org_id]]) {
      const { status, body } = await get(`${path}?${param}=${id}`);
      expect([status, body.error.param]).toEqual([404, param]);
    }
  const named = await get(`/v1/spend?session_id=s1&${month}`, other.billing_key);
  expect(named.body.totals.requests).toBe(0);
  const platform = await platformKey(db);
  const seen = await get(`/v1/admin/spend?org_id=${tenant.org_id}&${month}`, platform);
  expect(seen.body.totals.requests).toBe(5);
});

test('an answer that is too large keeps the dearest groups, and says so', async () => {
  const { org_id } = tenant;
  await many(
    db,
    `insert into spend_days select e.edition, '2026-09-01'::date + d, '', 'user ' || u, '', '', '', 'openai', 'm', u, 1, 1, 1, 0
     from spend_editions e cross join generate_series(0, 29) as d cross join generate_series(1, 400) as u
     where e.org_id = :org_id and e.state = 'current'`,
    { org_id },
  );
  const { body } = await get('/v1/spend?from=2026-09-01&to=2026-10-01&group_by=user');
  const csv = { accept: 'text/csv' };
  const calls = [];
  for (const path of ['spend?group_by=user', 'spend/top?by=user&limit=5']) {
    const { text } = await get(`/v1/${path}&from=2026-09-01&to=2026-10-01`, undefined, csv);
    const lines = text.trimEnd().split('\r\n').slice(1);
    expect(lines.at(-1)).toMatch(/^,?others,/);
    // requests, before three columns of tokens.
    calls.push(lines.reduce((sum, line) => sum + Number(line.split(',').at(-4)), 0));
  }
  expect(calls).toEqual([12_000, 12_000]);
  await many(db, `delete from spend_days where model = 'm'`);
  expect(body.truncated).toBe(true);
  const users = new Set(body.buckets.map((one: { group: { user: string } }) => one.group.user));
  expect([users.size > 300, users.has('user 400'), users.has('user 1')]).toEqual([
    true,
    true,
    false,
  ]);
  expect(body.totals.requests).toBe(12_000);
});

test('a day has names for a thousand tags; calls under further ones count as other', async () => {
  const { org_id } = await makeTenant(db);
  const wallet = await db('wallets').where({ org_id }).first();
  await credit(db, org_id, wallet.id, 10n ** 9n);
  await editions.openEditions(db);
  await many(
    db,
    `insert into spend_tags select e.edition, '2026-10-05', 'tag ' || n from spend_editions e cross join generate_series(1, 999) as n
     where e.org_id = :org_id`,
    { org_id },
  );
  const at = new Date('2026-10-05T10:00:00Z');
  // Of two that come before the next fold, the first by name has the last place.
  for (const tag of ['one too many', 'a last one'])
    await settled({ db, lanes }, org_id, 1, at, { tags: [tag] });
  const look = async () => {
    const { body } = await get(
      `/v1/admin/spend/top?org_id=${org_id}&by=tag&${month}`,
      await platformKey(db),
    );
    return body.groups.map(({ group, requests }: { group: { tag: string }; requests: number }) => [
      group.tag,
      requests,
    ]);
  };
  const two = 'a last one,1,other,1';
  expect((await look()).toSorted().join()).toBe(two);
  while ((await editions.foldStep(db)) > 0);
  expect((await look()).toSorted().join()).toBe(two);
  await settled({ db, lanes }, org_id, 3, at, { tags: ['beyond', 'further', 'tag 7'] });
  const expected = [
    ['other', 2],
    ['tag 7', 1],
    ['a last one', 1],
  ];
  expect(await look()).toEqual(expected);
  while ((await editions.foldStep(db)) > 0);
  expect(await look()).toEqual(expected);
});
