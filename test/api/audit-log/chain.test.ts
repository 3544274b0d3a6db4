import { randomUUID } from 'node:crypto';
import { audit } from '../../../domain/ledger/audit';
import { type Db, many, one } from '../../../domain/sql';
import { type CallApi, makeTenant, startApi, type Tenant } from '../../support/api';
import { locksAwaited } from '../../support/database';
import { platformKey } from '../../support/keys';
import { until } from '../../support/until';

// The chain of hashes: gap-free however many write at once, and whoever tampers with it is found.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let tenant: Tenant;
let platform: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  tenant = await makeTenant(db);
  platform = await platformKey(db);
});

afterAll(() => close());

interface Link {
  seq: bigint;
  event_id: string;
  prev_hash: string;
  hash: string;
}

const linksOf = (from: Db, chain: string) =>
  many<Link>(from, 'select * from audit_links where chain = :chain order by seq', { chain });

const agent = () =>
  call('post', `/v1/organizations/${tenant.org_id}/agents`, {
    key: tenant.owner_key,
    body: { name: `Agent ${randomUUID()}` },
  });
const price = () =>
  call('post', '/v1/admin/model-pricing', {
    key: platform,
    body: { provider: 'openai', model: randomUUID(), input_per_1m: 1 },
  });

test('changes at once make chains without gaps, one an organization and one of the platform', async () => {
  const made = Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? agent() : price()));
  for (const { status } of await Promise.all(made)) expect(status).toBe(201);
  for (const chain of [tenant.org_id, 'platform']) {
    const links = await linksOf(db, chain);
    expect(links.length).toBeGreaterThanOrEqual(15);
    expect(links.map(({ seq }) => seq)).toEqual(links.map((_, n) => BigInt(n + 1)));
    expect(links.map(({ prev_hash }) => prev_hash)).toEqual([
      '',
      ...links.slice(0, -1).map(({ hash }) => hash),
    ]);
    const head = await one(db, 'select seq, hash from audit_heads where chain = :chain', { chain });
    expect(head).toEqual({ seq: links.at(-1)?.seq, hash: links.at(-1)?.hash });
  }
  expect((await audit(db)).broken).toEqual([]);
});

test('the same row said otherwise has another hash, whatever member differs', async () => {
  const { rows } = await db.raw(
    `select column_name as name from information_schema.columns
     where table_name = 'audit_events' and column_name <> 'transaction_id'`,
  );
  for (const { name } of rows as { name: string }[]) {
    const found = await one<{ is_same: boolean }>(
      db,
      `select audit_hash(e, 'c', 1, '') = audit_hash(jsonb_populate_record(e, jsonb_build_object(:name::text, case :name
         when 'created_at' then to_jsonb(e.created_at - interval '1 microsecond') when 'before' then '{"a": 1}'
         when 'after' then '{"a": 1}' else '"other"'::jsonb end)), 'c', 1, '') as is_same
       from audit_events e where e.org_id = :org_id order by e.id desc limit 1`,
      { name, org_id: tenant.org_id },
    );
    expect([name, found.is_same]).toEqual([name, false]);
  }
});

test.each(['audit_events', 'audit_links'])(
  'rows of %s are neither changed, deleted nor cleared, also by their owner',
  async (table) => {
    for (const sql of [
      `update ${table} set ${table === 'audit_events' ? `actor = 'me'` : `hash = ''`}`,
      `delete from ${table}`,
      `truncate ${table}`,
    ])
      await expect(many(db, sql)).rejects.toThrow('kept as they were written');
  },
);

/** Tampers as an owner could who puts the triggers out of the way; what the proof says of it. */
async function provenAfter(tamper: (trx: Db, links: Link[]) => Promise<unknown>) {
  let broken: { check: string; detail: string }[] = [];
  const undone = new Error('undone');
  await db
    .transaction(async (trx) => {
      for (const table of ['audit_events', 'audit_links', 'audit_heads'])
        await many(trx, `alter table ${table} disable trigger user`);
      await tamper(trx, await linksOf(trx, tenant.org_id));
      ({ broken } = await audit(trx));
      throw undone;
    })
    .catch((error) => {
      if (error !== undone) throw error;
    });
  return broken;
}

const third = (links: Link[]) => links[2]?.event_id ?? '';

test.each(['delete from audit_heads', 'truncate audit_heads'])(
  'where chains end cannot be taken away, also by the owner: %s',
  async (sql) => {
    await expect(many(db, sql)).rejects.toThrow('kept as they were written');
  },
);

test.each<[string, (trx: Db, links: Link[]) => Promise<unknown>, (links: Link[]) => string]>([
  [
    'says something else',
    (trx, links) =>
      many(trx, `update audit_events set after = '{"role": "owner"}' where id = any(:ids)`, {
        ids: [third(links), links[5]?.event_id],
      }),
    (links) => `row 3: ${third(links)} is not as it was written`,
  ],
  [
    'names another actor',
    (trx, links) =>
      many(trx, `update audit_events set actor = 'user_x' where id = :id`, { id: third(links) }),
    (links) => `row 3: ${third(links)} is not as it was written`,
  ],
  [
    "is another organization's",
    (trx, links) =>
      many(trx, 'update audit_events set org_id = null where id = :id', { id: third(links) }),
    (links) => `row 3: ${third(links)} is not as it was written`,
  ],
  [
    'is gone',
    (trx, links) => many(trx, 'delete from audit_events where id = :id', { id: third(links) }),
    (links) => `row 3: its event ${third(links)} is missing`,
  ],
  [
    'is gone with its link',
    async (trx, links) => {
      const id = third(links);
      await many(trx, 'delete from audit_events where id = :id', { id });
      await many(trx, 'delete from audit_links where event_id = :id', { id });
    },
    () => 'row 3 is missing',
  ],
  [
    'is gone with its link, and those behind it moved up',
    async (trx, links) => {
      const id = third(links);
      await many(trx, 'delete from audit_events where id = :id', { id });
      await many(trx, 'delete from audit_links where event_id = :id', { id });
      await many(trx, 'update audit_links set seq = seq - 1000 where chain = :chain and seq > 3', {
        chain: tenant.org_id,
      });
      await many(trx, 'update audit_links set seq = seq + 999 where chain = :chain and seq < 0', {
        chain: tenant.org_id,
      });
    },
    () => 'row 3 does not follow the row before it',
  ],
  [
    'is the newest, and gone with its link',
    async (trx, links) => {
      const id = links.at(-1)?.event_id;
      await many(trx, 'delete from audit_events where id = :id', { id });
      await many(trx, 'delete from audit_links where event_id = :id', { id });
    },
    (links) => `row ${links.length} is missing: the chain ends at ${links.length}`,
  ],
  [
    'was slipped in',
    (trx) =>
      many(
        trx,
        `insert into audit_events (id, org_id, actor_type, action, object_id)
         values ('aud_slipped', :org_id, 'user', 'key.created', 'key_x')`,
        { org_id: tenant.org_id },
      ),
    () => 'aud_slipped stands in no chain',
  ],
])('a row that %s is found, and the first one is named', async (_, tamper, detail) => {
  const links = await linksOf(db, tenant.org_id);
  const broken = await provenAfter(tamper);
  expect(broken[0]).toMatchObject({ check: 'audit_log_is_whole' });
  expect(broken.map((one) => one.detail)).toContain(`${tenant.org_id}: ${detail(links)}`);
  expect((await audit(db)).broken).toEqual([]);
});

test('many rows of one transaction stand in the order in which they were written, and end the chain', async () => {
  const { org_id } = tenant;
  const before = (await linksOf(db, org_id)).length;
  await many(
    db,
    `insert into agents (org_id, name) select :org_id, 'One of many ' || n from generate_series(1, 500) as n`,
    { org_id },
  );
  const links = await linksOf(db, org_id);
  expect(links).toHaveLength(before + 500);
  const names = await many<{ name: string }>(
    db,
    `select e.after ->> 'name' as name from audit_links l join audit_events e on e.id = l.event_id
     where l.chain = :org_id and l.seq > :before order by l.seq`,
    { org_id, before },
  );
  expect(names.map(({ name }) => name)).toEqual(
    Array.from({ length: 500 }, (_, n) => `One of many ${n + 1}`),
  );
  const { seq, hash } = links.at(-1) as Link;
  const head = await one(db, 'select seq, hash from audit_heads where chain = :org_id', { org_id });
  expect(head).toEqual({ seq, hash });
});

test('a change that is undone leaves no link, and the next one no gap', async () => {
  const before = (await linksOf(db, tenant.org_id)).length;
  await expect(
    db.transaction(async (trx) => {
      await trx('agents').insert({ org_id: tenant.org_id, name: randomUUID() });
      throw new Error('undone');
    }),
  ).rejects.toThrow('undone');
  expect((await agent()).status).toBe(201);
  expect((await linksOf(db, tenant.org_id)).length).toBe(before + 1);
});

test('rows outlive what they name', async () => {
  const { user_id } = await one<{ user_id: string }>(
    db,
    `insert into users (name) values ('Gone') returning id as user_id`,
  );
  await many(
    db,
    `insert into memberships (org_id, user_id, role) values (:org_id, :user_id, 'member')`,
    { org_id: tenant.org_id, user_id },
  );
  await db('memberships').where({ user_id }).delete();
  await db('users').where({ id: user_id }).delete();
  const log = await call('get', `/v1/audit-log?object_id=${user_id}`, { key: tenant.owner_key });
  expect(log.body.audit_log.map(({ action }: { action: string }) => action)).toEqual([
    'member.ended',
    'member.created',
  ]);
});

test('transactions that write into the same chains in other orders wait for each other, none fails', async () => {
  const other = await makeTenant(db);
  const orders = [
    [tenant.org_id, other.org_id, 'a new one'],
    ['a new one', other.org_id, tenant.org_id],
  ];
  for (let n = 0; n < 10; n += 1) {
    const is_new = `org_new_${n}`;
    let arrive: () => void = () => undefined;
    const both = new Promise<void>((resolve) => {
      arrive = resolve;
    });
    let arrived = 0;
    const write = (chains: readonly string[]) =>
      db.transaction(async (trx) => {
        for (const chain of chains)
          await many(
            trx,
            `select write_audit_event(:chain, 'agent.changed', 'agent_x', null, null)`,
            { chain: chain === 'a new one' ? is_new : chain },
          );
        // Both commit at once, with all of their rows written.
        arrived += 1;
        if (arrived === orders.length) arrive();
        await both;
      });
    await Promise.all(orders.map(write));
  }
  expect((await audit(db)).broken).toEqual([]);
});

test('the rows of chains are locked in their order, whatever the order of the events', async () => {
  const other = await makeTenant(db);
  const chains = [tenant.org_id, other.org_id].sort();
  const [first, last] = chains as [string, string];
  const holder = await db.transaction();
  await many(holder, 'select from audit_heads where chain = :first for no key update', { first });
  const writing = db.transaction(async (trx) => {
    for (const chain of [last, first])
      await many(trx, `select write_audit_event(:chain, 'agent.changed', 'agent_x', null, null)`, {
        chain,
      });
  });
  await until(async () => (await locksAwaited(db)) > 0);
  // It waits for the first one, and does not hold the other meanwhile.
  const sql = 'select chain from audit_heads where chain = :last for no key update nowait';
  expect(await many(holder, sql, { last })).toEqual([{ chain: last }]);
  await holder.commit();
  await writing;
});
