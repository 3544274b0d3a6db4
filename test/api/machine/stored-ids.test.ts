import { randomUUID } from 'node:crypto';
import type { NamedId, Reserve, Settle } from '../../../domain/ledger/calls';
import { reserveBatch, reserveItem } from '../../../domain/ledger/reservations';
import * as storedIds from '../../../domain/ledger/stored-ids';
import { type Db, deleteInSteps, many, one } from '../../../domain/sql';
import { type Answer, type CallApi, startApi } from '../../support/api';
import { gatewayToken } from '../../support/keys';
import {
  BODY_HASH,
  makeFundedOrg,
  makePrice,
  reserveBody,
  settleBody,
  type TestOrg,
} from '../../support/ledger';

type Named = storedIds.StoredIds['named'];

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let a: TestOrg;
let b: TestOrg;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await gatewayToken(db);
  await makePrice(db);
  await makePrice(db, { provider: 'azure' });
  a = await makeFundedOrg(db, 1_000_000);
  b = await makeFundedOrg(db, 1_000_000);
});

afterAll(() => close());

const post = (path: string, body: object): Promise<Answer> =>
  call('post', `/v1/gateway/wallets/${path}`, { key, body });

const response = (id: string): NamedId => ({ kind: 'response', id });
const naming = (...ids: NamedId[]) => ({ stored_ids: { providers: ['openai'], ids } });
const reserve = ({ org_id }: TestOrg, more: Partial<Reserve> = {}) =>
  post('reserve', reserveBody(org_id, 100, more));

/** A whole call that makes ids. */
async function make(
  org: TestOrg,
  ids: readonly NamedId[],
  more: Partial<Reserve> = {},
  provider = 'openai',
): Promise<void> {
  const { status, body } = await reserve(org, more);
  expect(status).toBe(200);
  const stored_ids = ids.map((one_id) => ({ ...one_id, provider }));
  const settled = await post(
    'settle',
    settleBody(org.org_id, body.reservation_id, 100, { stored_ids }),
  );
  expect(settled.status).toBe(200);
}

async function rowsOf({ org_id }: TestOrg, id: string) {
  return many<{ kind: string; provider: string; user_id: string | null }>(
    db,
    'select kind, provider, user_id from stored_ids where org_id = :org_id and id = :id',
    { org_id, id },
  );
}

test('an id is known to the organization whose call made it, and to no other', async () => {
  await make(a, [response('resp_1')]);
  const own = await reserve(a, naming(response('resp_1')));
  expect([own.status, own.body.stored_provider]).toEqual([200, 'openai']);
  const foreign = await reserve(b, naming(response('resp_1')));
  const unknown = await reserve(b, naming(response('resp_none')));
  expect(foreign.status).toBe(404);
  expect(foreign.body.error).toMatchObject({
    code: 'stored_id_unknown',
    stored_id: { kind: 'response', id: 'resp_1' },
  });
  // Nobody learns whether another organization has it.
  expect(unknown.body.error.message.replace('resp_none', 'resp_1')).toBe(
    foreign.body.error.message,
  );
  expect(
    await many(db, `select id from reservations where org_id = :org_id`, { org_id: b.org_id }),
  ).toEqual([]);
});

test('an id belongs to its kind and its provider', async () => {
  await make(a, [{ kind: 'container', id: 'cntr_1' }]);
  expect((await reserve(a, naming({ kind: 'container', id: 'cntr_1' }))).status).toBe(200);
  expect((await reserve(a, naming({ kind: 'file', id: 'cntr_1' }))).status).toBe(404);
  const ids = [{ kind: 'container', id: 'cntr_1' }];
  expect((await reserve(a, { stored_ids: { providers: ['azure'], ids } })).status).toBe(404);
});

test('the first provider that keeps all ids is the one that may serve', async () => {
  await make(a, [response('resp_x'), response('resp_both')], {}, 'azure');
  await make(a, [response('resp_y'), response('resp_both')], {}, 'openai');
  const providers = ['openai', 'azure'];
  const served = async (...ids: NamedId[]) => {
    const { status, body } = await reserve(a, { stored_ids: { providers, ids } });
    return status === 200 ? body.stored_provider : status;
  };
  expect(await served(response('resp_x'))).toBe('azure');
  expect(await served(response('resp_y'))).toBe('openai');
  expect(await served(response('resp_both'))).toBe('openai');
  expect(await served(response('resp_both'), response('resp_x'))).toBe('azure');
  expect(await served(response('resp_x'), response('resp_y'))).toBe(404);
});

test('keys of one organization share ids, unless both name different users', async () => {
  const other = await one<{ id: string }>(
    db,
    `insert into users (name) values ('Other') returning id`,
  );
  await db('memberships').insert({ org_id: a.org_id, user_id: other.id, role: 'member' });
  await make(a, [response('resp_user')], { user_id: a.user_id });
  await make(a, [response('resp_nobody')]);
  const status = async (id: string, user_id?: string) =>
    (await reserve(a, { ...naming(response(id)), user_id })).status;
  expect(await status('resp_user', a.user_id)).toBe(200);
  expect(await status('resp_user')).toBe(200);
  expect(await status('resp_user', other.id)).toBe(404);
  expect(await status('resp_nobody', other.id)).toBe(200);
});

test('an id that another user’s call makes again stays whose it is', async () => {
  await make(a, [response('resp_again')], { user_id: a.user_id });
  await make(a, [response('resp_again')]);
  expect(await rowsOf(a, 'resp_again')).toEqual([
    { kind: 'response', provider: 'openai', user_id: a.user_id },
  ]);
});

test('a settle for another organization’s hold binds nothing', async () => {
  const { body } = await reserve(a);
  const stored_ids = [{ ...response('resp_theft'), provider: 'openai' }];
  const stolen = settleBody(b.org_id, body.reservation_id, 100, { stored_ids });
  expect((await post('settle', stolen)).status).toBe(404);
  expect(await rowsOf(b, 'resp_theft')).toEqual([]);
  await post('settle', settleBody(a.org_id, body.reservation_id, 100));
});

test('a settle by request_id binds too, and a repeat changes nothing', async () => {
  const request_id = randomUUID();
  await reserve(a, { request_id });
  const body: Settle = {
    ...settleBody(a.org_id, null, 100),
    request_id,
    stored_ids: [{ ...response('resp_request'), provider: 'openai' }],
  };
  for (const _ of [1, 2]) expect((await post('settle', body)).status).toBe(200);
  expect(await rowsOf(a, 'resp_request')).toHaveLength(1);
});

test('in one batch what is settled is known to what is reserved, and a refused reserve disturbs no other', async () => {
  const { body: held } = await reserve(a);
  const stored_ids = [{ ...response('resp_batch'), provider: 'openai' }];
  const items = [
    { id: 'r1', op: 'reserve', body: reserveBody(a.org_id, 100, naming(response('resp_none'))) },
    { id: 'r2', op: 'reserve', body: reserveBody(a.org_id, 100, naming(response('resp_batch'))) },
    { id: 'r3', op: 'reserve', body: reserveBody(a.org_id, 300) },
    { id: 'r4', op: 'reserve', body: reserveBody(a.org_id, 400, naming(response('resp_none'))) },
    { id: 'r5', op: 'reserve', body: reserveBody(a.org_id, 500) },
    { id: 's', op: 'settle', body: settleBody(a.org_id, held.reservation_id, 100, { stored_ids }) },
  ];
  const { text } = await post('batch', { items });
  const lines = new Map(
    text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
      .map((line) => [line.id, line]),
  );
  expect(['r1', 'r2', 'r3', 'r4', 'r5', 's'].map((id) => lines.get(id).status)).toEqual([
    404, 200, 200, 404, 200, 200,
  ]);
  expect(lines.get('r2').body.stored_provider).toBe('openai');
  expect(lines.get('r3').body).not.toHaveProperty('stored_provider');
  expect([lines.get('r3').body.estimated_cost, lines.get('r5').body.estimated_cost]).toEqual([
    0.0003, 0.0005,
  ]);
});

test('a reserve that is refused for money names its ticket, and the redeem asks for the ids again', async () => {
  const poor = await makeFundedOrg(db, 200);
  await make(poor, [response('resp_poor')]);
  const plain = reserveBody(poor.org_id, 2_000, naming(response('resp_poor')));
  const body = { ...plain, fallbacks: [{ provider: 'azure', model: plain.model }] };
  const short = await post('reserve', body);
  expect(short.status).toBe(402);
  const redeem = (ids: NamedId[]) =>
    post('redeem-ticket', {
      org_id: poor.org_id,
      ticket_id: short.body.error.cost_ticket.id,
      request_id: body.request_id,
      request_body_hash: BODY_HASH,
      wait_ms: 0,
      ...naming(...ids),
    });
  expect((await redeem([response('resp_none')])).status).toBe(404);
  expect((await redeem([response('resp_poor')])).status).toBe(402);
  await many(db, `select credit(:org_id, :wallet, 10000000, 'more')`, {
    org_id: poor.org_id,
    wallet: poor.org_wallet,
  });
  const paid = await redeem([response('resp_poor')]);
  expect([paid.status, paid.body.stored_provider]).toEqual([200, 'openai']);
  // What the hold froze, by which the call is settled.
  const { provider, model } = body;
  expect(paid.body.priced_models).toEqual([
    { provider, model },
    { provider: 'azure', model },
  ]);
  await post('settle', {
    ...settleBody(poor.org_id, paid.body.reservation_id, 0),
    outcome: 'canceled',
  });
});

test('an id is forgotten 30 days after its last use', async () => {
  await make(a, [response('resp_old'), response('resp_used')]);
  const age = (id: string, days: number) =>
    many(
      db,
      `update stored_ids set used_at = clock_timestamp() - make_interval(days => :days) where id = :id returning id`,
      { id, days },
    );
  await age('resp_old', 31);
  await age('resp_used', 29);
  // A use counts from now on.
  expect((await reserve(a, naming(response('resp_used')))).status).toBe(200);
  expect(await storedIds.forget(db)).toBe(1);
  expect((await reserve(a, naming(response('resp_old')))).status).toBe(404);
  expect((await reserve(a, naming(response('resp_used')))).status).toBe(200);
});

test('ids are forgotten in steps, and all are counted', async () => {
  const old = Array.from({ length: 5 }, (_, n) => response(`resp_step_${n}`));
  await make(a, [...old, response('resp_young')]);
  const sql = `update stored_ids set used_at = clock_timestamp() - interval '31 days' where id like 'resp_step%' returning id`;
  expect(await many(db, sql)).toHaveLength(5);
  const past = `used_at < clock_timestamp() - interval '30 days'`;
  expect(await deleteInSteps(db, 'stored_ids', past, 2)).toBe(5);
  expect(await deleteInSteps(db, 'stored_ids', past, 2)).toBe(0);
  expect(await rowsOf(a, 'resp_young')).toHaveLength(1);
});

test('what a full batch says of ids comes once, and reaches each of its reserves', async () => {
  await make(a, [response('resp_many')]);
  const ids = Array.from({ length: 64 }, (_, n) => (n % 3 === 0 ? 'resp_none' : 'resp_many'));
  const reserves = ids.map((id) => reserveBody(a.org_id, 100, naming(response(id))));
  const named = reserves.map((body, at) => ({ ...storedIds.namedBy(body), n: at + 1 }));
  const rows = await reserveBatch(db, a.org_id, {
    reserves: reserves.map((body) => reserveItem(body)),
    stored: { made: [], named: named as Named },
  });
  const answers = rows.toSorted((one, other) => one.n - other.n);
  expect(answers.map(({ n, code, stored_provider }) => [n, code ?? stored_provider])).toEqual(
    ids.map((id, at) => [at + 1, id === 'resp_none' ? 'stored_id_unknown' : 'openai']),
  );
});

test('what is no list of ids is refused', async () => {
  const bad: object[] = [
    { providers: [], ids: [response('x')] },
    { providers: ['openai'], ids: [] },
    { providers: ['openai'], ids: [{ kind: 'response', id: '' }] },
    { providers: ['openai'], ids: [{ kind: 'response' }] },
    { providers: ['openai'], ids: [{ kind: 'response', id: 7 }] },
    { ids: [response('x')] },
  ];
  for (const stored_ids of bad) {
    const { status, body } = await reserve(a, { stored_ids } as Partial<Reserve>);
    expect([status, body.error.code]).toEqual([422, 'invalid_field']);
  }
});
