import { randomUUID } from 'node:crypto';
import { sha256 } from '../../../domain/digest';
import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';
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
  tenant = await makeTenant(db);
  base = `/v1/organizations/${tenant.org_id}`;
  for (let n = 0; n < 6; n += 1) await add();
});

afterAll(() => close());

let made = 0;

/** One more of everything, some of them with equal names but for their case. */
async function add(): Promise<void> {
  made += 1;
  const name = made % 3 === 0 ? `Same ${made}` : `row ${made}`;
  const post = async (path: string, body: object, key = tenant.owner_key) => {
    const answer = await call('post', path, { key, body });
    expect([path, answer.status, answer.text]).toEqual([path, 201, expect.anything()]);
    return answer;
  };
  const member = await post(`${base}/members`, { name: made % 2 ? 'Twin' : 'twin' });
  const { user_id } = member.body;
  await post(`${base}/teams/${tenant.team_id}/members`, { user_id });
  await post('/v1/wallets/credit', {
    ...{ target_wallet_owner_type: 'user', target_wallet_owner_id: user_id, amount: 1 },
  });
  const team = await post(`${base}/teams`, { name });
  await post(`${base}/teams/${team.body.id}/members`, { user_id: tenant.member_id });
  await post('/v1/wallets/credit', {
    ...{ target_wallet_owner_type: 'team', target_wallet_owner_id: team.body.id, amount: 1 },
  });
  await post(`${base}/agents`, { name });
  await post('/v1/admin/organizations', { name: made % 2 ? 'Twin' : 'twin' }, platform);
  const expires_at = made % 2 ? undefined : `22${String(10 + made)}-01-01T00:00:00.123456Z`;
  await post('/v1/tokens', { name: randomUUID(), token_type: 'gateway', expires_at });
}

interface List {
  path: () => string;
  orders: string[];
  key?: () => string;
}

const lists: Record<string, List> = {
  members: { path: () => `${base}/members`, orders: ['created_at', 'name'] },
  'team members': {
    path: () => `${base}/teams/${tenant.team_id}/members`,
    orders: ['created_at', 'name'],
  },
  teams: { path: () => `${base}/teams`, orders: ['created_at', 'name'] },
  agents: { path: () => `${base}/agents`, orders: ['created_at', 'name'] },
  tokens: { path: () => '/v1/tokens', orders: ['created_at', 'name', 'expires_at'] },
  wallets: { path: () => '/v1/wallets', orders: ['created_at'] },
  'own wallets': {
    path: () => '/v1/wallets',
    orders: ['created_at'],
    key: () => tenant.member_key,
  },
  organizations: {
    path: () => '/v1/admin/organizations',
    orders: ['created_at', 'name'],
    key: () => platform,
  },
};
const every = Object.entries(lists).flatMap(([name, { orders }]) =>
  orders.flatMap((order) => [order, `-${order}`].map((sort) => [name, sort] as const)),
);

// biome-ignore lint/suspicious/noExplicitAny: rows of many lists.
type Row = any;

async function ask(name: string, query: string) {
  const { path, key = () => tenant.owner_key } = lists[name] as List;
  return call('get', `${path()}?${query}`, { key: key() });
}

const rowsOf = (body: object) => Object.values(body).find(Array.isArray) as Row[];

test.each(every)(
  'the parts of %s in the order %s are the whole list, without a count',
  async (name, sort) => {
    const whole = await ask(name, `per_page=200&sort=${sort}`);
    expect(whole.body.total).toBe(rowsOf(whole.body).length);
    const seen: Row[] = [];
    let cursor: string | null = 'first';
    while (cursor !== null) {
      const { body } = await ask(name, `per_page=2&sort=${sort}&cursor=${cursor}`);
      expect(Object.keys(body).sort()).toEqual(
        [Object.keys(whole.body)[0], 'has_more', 'next'].sort(),
      );
      expect(body.has_more).toBe(body.next !== null);
      seen.push(...rowsOf(body));
      cursor = body.next;
    }
    expect(seen).toEqual(rowsOf(whole.body));
    expect(seen.length).toBeGreaterThan(5);
  },
);

test('rows that are added while a list is read repeat none and hide none', async () => {
  const before = rowsOf((await ask('members', 'per_page=200')).body);
  const seen: string[] = [];
  let cursor: string | null = 'first';
  while (cursor !== null) {
    const { body } = await ask('members', `per_page=2&cursor=${cursor}`);
    seen.push(...rowsOf(body).map(({ user_id }) => user_id));
    cursor = body.next;
    await add();
  }
  expect(seen).toEqual(before.map(({ user_id }) => user_id));
});

const refused = async (name: string, query: string) => refusal(await ask(name, query));

test('a cursor is of one list, one order and one search, and nobody makes one', async () => {
  const { next } = (await ask('members', 'per_page=1&cursor=first')).body;
  const wrong = { status: 422, code: 'invalid_field', param: 'cursor' };
  for (const [name, query] of [
    ['members', `sort=name&cursor=${next}`],
    ['members', `q=twin&cursor=${next}`],
    ['teams', `cursor=${next}`],
    ['members', `cursor=${next}0`],
    ['members', `cursor=x${next}`],
    ['members', `cursor=${next.split('.')[0]}`],
    ['members', 'cursor=last'],
    ['members', `cursor=${'x'.repeat(3_001)}`],
    ['members', 'cursor='],
  ] as const)
    expect([query, await refused(name, query)]).toEqual([query, wrong]);
  expect((await ask('members', `cursor=${next}`)).status).toBe(200);
  // Another organization's members are another list.
  const other = await makeTenant(db);
  const path = `/v1/organizations/${other.org_id}/members?cursor=${next}`;
  expect(refusal(await call('get', path, { key: other.owner_key }))).toMatchObject(wrong);
});

test.each([
  ['["never","x"]'],
  ['["2026-13-45","x"]'],
  ['["2020-01-01 Foo/Bar","x"]'],
  ['["2020-01-01 00:00:00 +199:99","x"]'],
  ['[null,"x"]'],
  ['["2026-01-01 00:00:00+00",7]'],
  ['[7,"x"]'],
  ['{}'],
  ['null'],
  ['not JSON'],
])(
  'a cursor that somebody made of %s, check and all, is refused and breaks nothing',
  async (place) => {
    const bindings = { org_id: tenant.org_id, q: null, role: null, marks: [], team_id: null };
    const of = JSON.stringify(['members', '-created_at', bindings, null]);
    const text = Buffer.from(place).toString('base64url');
    const check = (await sha256(`${text} ${of}`)).slice(0, 24);
    expect(await refused('members', `cursor=${text}.${check}`)).toMatchObject({
      ...{ status: 422, param: 'cursor' },
    });
  },
);

test.each([
  ['per_page=0', 'per_page'],
  ['per_page=201', 'per_page'],
  ['per_page=1.5', 'per_page'],
  ['page=0', 'page'],
  ['sort=salary', 'sort'],
  ['sort=--name', 'sort'],
  ['sort=', 'sort'],
  ['q=', 'q'],
  ['q=%20', 'q'],
  ['q=!!!', 'q'],
  [`q=${'x'.repeat(201)}`, 'q'],
  ['q=a%00b', 'q'],
  ['page=2&cursor=first', 'page'],
  ['role=boss', 'role'],
  ['unknown=1', 'unknown'],
])('members with %s are refused by name', async (query, param) => {
  const code = param === 'unknown' ? 'unknown_field' : 'invalid_field';
  expect(await refused('members', query)).toEqual({ status: 422, code, param });
});

test.each(['teams', 'agents', 'members'])(
  'a name of 300 characters, of blanks or with NUL makes no %s and renames none',
  async (kind) => {
    const id = { teams: tenant.team_id, agents: tenant.agent_id, members: tenant.member_id }[kind];
    for (const name of ['x'.repeat(300), ' ', 'a\u0000b', '', 7, null])
      for (const [method, path] of [
        ['post', `${base}/${kind}`],
        ['patch', `${base}/${kind}/${id}`],
      ] as const) {
        const answer = await call(method, path, { key: tenant.owner_key, body: { name } });
        expect([method, name, refusal(answer)]).toMatchObject([method, name, { status: 422 }]);
      }
  },
);
