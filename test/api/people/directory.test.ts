import { randomUUID } from 'node:crypto';
import { type Db, many } from '../../../domain/sql';
import {
  type CallApi,
  makePerson,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { platformKey } from '../../support/keys';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;
let base: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
});

beforeEach(async () => {
  tenant = await makeTenant(db);
  base = `/v1/organizations/${tenant.org_id}`;
});

afterAll(() => close());

const owner = (body?: object) => ({ key: tenant.owner_key, body });

// biome-ignore lint/suspicious/noExplicitAny: rows of many lists.
type Row = any;

async function rows(path: string, key = tenant.owner_key): Promise<Row[]> {
  const { status, body } = await call('get', path, { key });
  expect([path, status]).toEqual([path, 200]);
  return Object.values(body).find(Array.isArray) as Row[];
}

const names = async (path: string, key?: string) => (await rows(path, key)).map(({ name }) => name);

async function post(path: string, body: object, key = tenant.owner_key): Promise<Row> {
  const answer = await call('post', path, { key, body });
  expect([path, answer.status, answer.text]).toEqual([path, 201, expect.anything()]);
  return answer.body;
}

const people = ['Ann Smith', 'Bob Öztürk', 'ann O’Neil', 'Zoë Smithers', '李 小龍'];

async function addPeople(): Promise<void> {
  for (const [n, name] of people.entries())
    await post(`${base}/members`, { name, email: `p${n}.mail@acme.example`, role: 'member' });
}

test.each([
  ['smith', ['Zoë Smithers', 'Ann Smith']],
  ['ANN', ['ann O’Neil', 'Ann Smith']],
  ['smith ann', ['Ann Smith']],
  ['özt', ['Bob Öztürk']],
  ['p2', ['ann O’Neil']],
  ['p2.mail@acme', ['ann O’Neil']],
  ['李', ['李 小龍']],
  ['mith', []],
  ["o'neil", ['ann O’Neil']],
  ['100% _', []],
])('a search of members for %s finds those whose words begin so', async (q, found) => {
  await addPeople();
  const list = (query: string) => names(`${base}/members?${query}`);
  expect(await list(`q=${encodeURIComponent(q)}`)).toEqual(found);
  expect(await list(`q=${encodeURIComponent(q)}&cursor=first`)).toEqual(found);
});

test('members are filtered by role and team, and sorted by name whatever its case', async () => {
  await addPeople();
  const lead = await post(`${base}/members`, { name: 'Lea Lead', role: 'admin' });
  await post(`${base}/teams/${tenant.team_id}/members`, { user_id: lead.user_id });
  expect(await names(`${base}/members?role=admin`)).toEqual(['Lea Lead']);
  expect(await names(`${base}/members?role=admin&q=smith`)).toEqual([]);
  const inTeam = await rows(`${base}/members?team_id=${tenant.team_id}`);
  expect(inTeam.map(({ user_id }) => user_id)).toEqual([lead.user_id, tenant.member_id]);
  const sorted = await names(`${base}/members?sort=name&q=acme`);
  expect(sorted).toEqual(['ann O’Neil', 'Ann Smith', 'Bob Öztürk', 'Zoë Smithers', '李 小龍']);
  expect(await names(`${base}/members?sort=-name&q=acme`)).toEqual([...sorted].reverse());
});

test('a new name is found at once, in the list and by search, and is an audit event', async () => {
  const { teams, ...made } = await post(`${base}/members`, { name: 'Old Name', role: 'member' });
  expect(teams).toEqual([]);
  const path = `${base}/members/${made.user_id}`;
  const renamed = await call('patch', path, owner({ name: 'New Name', email: 'new@acme.example' }));
  expect(renamed).toMatchObject({
    status: 200,
    body: { ...made, name: 'New Name', email: 'new@acme.example' },
  });
  expect(await names(`${base}/members?q=old`)).toEqual([]);
  expect(await names(`${base}/members?q=new@acme`)).toEqual(['New Name']);
  const events = await rows(`/v1/audit-events?object_id=${made.user_id}&action=member.changed`);
  expect(events).toMatchObject([
    {
      before: { name: 'Old Name', email: null },
      after: { name: 'New Name', email: 'new@acme.example' },
    },
  ]);
  const cleared = await call('patch', path, owner({ email: null }));
  expect(cleared.body).toMatchObject({ name: 'New Name', email: null });
});

test("a person's name and address are changed by those who may change the person", async () => {
  const chief = await makePerson({ db, call }, tenant, 'owner');
  const people_admin = await makePerson({ db, call }, tenant, 'admin');
  const body = { name: 'Other' };
  expect((await call('patch', chief.at, { key: people_admin.key, body })).status).toBe(403);
  const taken = await post(`${base}/members`, { name: 'A', email: 'taken@acme.example' });
  expect(taken.email).toBe('taken@acme.example');
  const same = await call('patch', chief.at, owner({ email: 'Taken@acme.example' }));
  expect(refusal(same)).toMatchObject({ status: 409, param: 'email' });
  const again = owner({ name: 'B', email: 'TAKEN@acme.example', role: 'member' });
  const clash = await call('post', `${base}/members`, again);
  expect(refusal(clash)).toMatchObject({ status: 409, param: 'email' });
  // An address is free once its person has left.
  const left = { email: 'left@acme.example', role: 'member' };
  const leaver = await post(`${base}/members`, { name: 'C', ...left });
  await call('delete', `${base}/members/${leaver.user_id}`, owner());
  await post(`${base}/members`, { name: 'D', ...left });
  // Whoever is of two organizations is renamed by the platform.
  const other = await makeTenant(db);
  await post(`/v1/organizations/${other.org_id}/members`, { user_id: taken.user_id }, platform);
  const path = `${base}/members/${taken.user_id}`;
  expect(refusal(await call('patch', path, owner(body)))).toMatchObject({ status: 403 });
  expect((await call('patch', path, { key: platform, body })).body.name).toBe('Other');
  expect(await names(`/v1/organizations/${other.org_id}/members?q=other`, platform)).toEqual([
    'Other',
  ]);
});

test('one member says which teams they are in, and as what', async () => {
  const second = await post(`${base}/teams`, { name: 'Another' });
  const { member_id: user_id } = tenant;
  await post(`${base}/teams/${second.id}/members`, { user_id, role: 'admin' });
  const { body } = await call('get', `${base}/members/${user_id}`, { key: tenant.member_key });
  expect(body.teams).toEqual([
    { team_id: second.id, name: 'Another', role: 'admin' },
    { team_id: tenant.team_id, name: expect.stringMatching(/^Team /), role: 'member' },
  ]);
  const other = await makeTenant(db);
  expect((await call('get', `${base}/members/${other.member_id}`, owner())).status).toBe(404);
});

test('who is in a team is listed with roles, filtered, and sorted by name', async () => {
  const team = `${base}/teams/${tenant.team_id}/members`;
  for (const name of ['Cy Cole', 'Bo Blum']) {
    const { user_id } = await post(`${base}/members`, { name });
    await post(team, { user_id, role: name === 'Cy Cole' ? 'admin' : 'member' });
  }
  expect((await names(`${team}?sort=name`)).slice(0, 2)).toEqual(['Bo Blum', 'Cy Cole']);
  expect(await rows(`${team}?role=admin`)).toMatchObject([{ name: 'Cy Cole', role: 'admin' }]);
  expect(await names(`${team}?q=blum&cursor=first`)).toEqual(['Bo Blum']);
  const other = await makeTenant(db);
  const foreign = await call('get', `${base}/teams/${other.team_id}/members`, owner());
  expect(foreign.status).toBe(404);
});

test.each(['teams', 'agents'] as const)(
  '%s are found by words, renamed, archived and shown by id',
  async (kind) => {
    const path = `${base}/${kind}`;
    const made = await post(path, { name: 'Blue Whale' });
    await post(path, { name: 'Red Fox' });
    expect(await names(`${path}?q=wha`)).toEqual(['Blue Whale']);
    expect(await names(`${path}?sort=name&cursor=first&per_page=1`)).toHaveLength(1);
    const one = `${path}/${made.id}`;
    expect((await call('get', one, owner())).body).toEqual(made);
    const renamed = await call('patch', one, owner({ name: 'Green Whale' }));
    expect(renamed).toMatchObject({ status: 200, body: { ...made, name: 'Green Whale' } });
    const taken = await call('patch', one, owner({ name: 'Red Fox' }));
    expect(refusal(taken)).toMatchObject({ status: 409, code: 'already_exists' });
    expect((await call('delete', one, owner())).status).toBe(200);
    expect((await call('patch', one, owner({ name: 'Gone' }))).status).toBe(404);
    expect((await call('get', one, owner())).body).toMatchObject({
      ...{ name: 'Green Whale', archived_at: expect.any(String) },
    });
    expect(await names(`${path}?q=whale`)).toEqual([]);
    expect(await names(`${path}?q=whale&status=archived`)).toEqual(['Green Whale']);
    const other = await makeTenant(db);
    const foreign = kind === 'teams' ? other.team_id : other.agent_id;
    for (const method of ['get', 'patch'])
      expect(
        (
          await call(
            method,
            `${path}/${foreign}`,
            owner(method === 'get' ? undefined : { name: 'x' }),
          )
        ).status,
      ).toBe(404);
  },
);

test('organizations are found by words and state, and renamed by those who manage their people', async () => {
  const tag = randomUUID().slice(0, 8);
  const { id } = await post('/v1/admin/organizations', { name: `Acme ${tag}` }, platform);
  const all = '/v1/admin/organizations';
  expect(await names(`${all}?q=acme ${tag}`, platform)).toEqual([`Acme ${tag}`]);
  expect(await names(`${all}?q=${tag}&status=suspended`, platform)).toEqual([]);
  await call('patch', base, owner({ name: `Mine ${tag}` }));
  expect(await names(`${all}?q=${tag}&sort=name`, platform)).toEqual([
    `Acme ${tag}`,
    `Mine ${tag}`,
  ]);
  expect((await call('patch', `/v1/organizations/${id}`, owner({ name: 'x' }))).status).toBe(404);
});

test('thirty people in four teams are taken in by five calls, each with a result of their own', async () => {
  const teams: Row[] = [];
  for (const name of ['A', 'B', 'C', 'D']) teams.push(await post(`${base}/teams`, { name }));
  const members = Array.from({ length: 30 }, (_, n) => ({
    name: `Person ${n}`,
    email: `person${n % 29}@acme.example`,
    teams: [
      { team_id: teams[n % 4].id, role: n < 4 ? 'admin' : 'member' },
      ...(n === 7 ? [{ team_id: 'team_unknown' }] : []),
    ],
  }));
  const { status, body } = await call('post', `${base}/members/bulk`, owner({ members }));
  expect(status).toBe(200);
  expect(body.results).toHaveLength(30);
  const refused = body.results.flatMap((one: Row, n: number) =>
    one.status === 201 ? [] : [[n, one.status, one.error.code]],
  );
  // One team is unknown, and one address was given to somebody before.
  expect(refused).toEqual([
    [7, 404, 'not_found'],
    [29, 409, 'already_exists'],
  ]);
  expect(body.results[5].member).toMatchObject({
    ...{ name: 'Person 5', role: 'member' },
    teams: [{ team_id: teams[1].id, name: 'B', role: 'member' }],
  });
  expect(await names(`${base}/members?q=person&per_page=200`)).toHaveLength(28);
  expect(await names(`${base}/teams/${teams[0].id}/members?role=admin`)).toEqual(['Person 0']);
});

test('nobody makes owners in a list who could not make one alone', async () => {
  const manager = await makePerson({ db, call }, tenant, 'admin');
  const members = [{ name: 'A', role: 'owner' }, { name: 'B' }];
  const { body } = await call('post', `${base}/members/bulk`, {
    ...{ key: manager.key, body: { members } },
  });
  expect(body.results.map(({ status }: Row) => status)).toEqual([403, 201]);
  const wrong = await call('post', `${base}/members/bulk`, owner({ members: [{ role: 'owner' }] }));
  expect(refusal(wrong)).toMatchObject({ status: 422, param: 'members.0.name' });
  const none = await call('post', `${base}/members/bulk`, owner({ members: [] }));
  expect(refusal(none)).toMatchObject({ status: 422, param: 'members' });
});

test('the last owner stays; a role of oneself may shrink and never grow', async () => {
  const chief = await makePerson({ db, call }, tenant, 'owner');
  const down = { key: chief.key, body: { role: 'member' } };
  expect(refusal(await call('put', chief.at, down))).toMatchObject({
    ...{ status: 409, code: 'last_owner' },
  });
  expect((await call('delete', chief.at, { key: chief.key })).status).toBe(409);
  const second = await makePerson({ db, call }, tenant, 'owner');
  expect((await call('put', chief.at, down)).status).toBe(200);
  const up = { key: chief.key, body: { role: 'owner' } };
  expect((await call('put', chief.at, up)).status).toBe(403);
  expect((await call('delete', second.at, { key: second.key })).status).toBe(409);
  const manager = await makePerson({ db, call }, tenant, 'admin');
  const money = { key: manager.key, body: { role: 'billing_admin' } };
  expect(refusal(await call('put', manager.at, money))).toMatchObject({
    ...{ status: 403, param: 'role' },
  });
});

test('a row is found by its words alike, with the index and without it', async () => {
  const texts = [
    'Ann Smith',
    'ANN-smith_7',
    'Öztürk, B.',
    "o'neil",
    '李 小龍',
    'x'.repeat(150),
    ' ',
  ];
  const asked = ['ann', 'smi ann', 'mith', 'öz', 'neil o', '小', 'x'.repeat(120), '7', '!', "a'b"];
  for (const text of texts)
    for (const q of asked) {
      const [row] = await many<{ indexed: boolean; plain: boolean }>(
        db,
        `select search_words('org_1', array[:text], '{}') @@ search_for('org_1', :q, '{}') as indexed,
           has_words(array[:text], :q) as plain`,
        { text, q },
      );
      expect([text, q, row?.indexed]).toEqual([text, q, row?.plain]);
    }
});
