import type { Reserve } from '../../../domain/ledger/calls';
import { type Db, many } from '../../../domain/sql';
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
import { until } from '../../support/until';

// A refusal by the limits of a session says which limit, and what the session has come to.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await gatewayToken(db);
  await makePrice(db);
});

afterAll(() => close());

const post = (path: string, body: object): Promise<Answer> =>
  call('post', `/v1/gateway/wallets/${path}`, { key, body });

type Limits = Reserve['session_limits'];

const inSession = ({ org_id }: TestOrg, tokens: number, session_limits: Limits) =>
  reserveBody(org_id, tokens, { session_id: 'talk', session_limits });

/** A call of a session that waits for money with a ticket, after one that was held. */
async function heldBack(org: TestOrg, limits: Limits) {
  const first = await post('reserve', inSession(org, 100, limits));
  const body = inSession(org, 2_000, limits);
  const short = await post('reserve', body);
  expect([first.status, short.status]).toEqual([200, 402]);
  return {
    org_id: org.org_id,
    ticket_id: short.body.error.cost_ticket.id,
    request_id: body.request_id,
    request_body_hash: BODY_HASH,
  };
}

async function pay({ org_id, org_wallet }: TestOrg): Promise<void> {
  const bindings = { org_id, wallet: org_wallet };
  await many(db, `select credit(:org_id, :wallet, 10000000, 'more')`, bindings);
}

const told = ({ status, body }: Answer) => ({ status, ...body.error });

const cases: [string, Limits, string][] = [
  [
    'actions',
    { max_actions: 2 },
    'This session has used 2 of its 2 actions (max_actions). Begin another session.',
  ],
  [
    'cost',
    { max_cost_usd: 0.0021 },
    'This session has cost 0.0002 of its 0.0021 USD (max_cost_usd), and this request may cost more than the rest. Begin another session.',
  ],
];

test.each(cases)(
  'a reserve, a redeem and a redeem that waited are told of the %s in the same words',
  async (_, limits, message) => {
    const refused = { status: 409, code: 'session_limit_exceeded', message };
    const org = await makeFundedOrg(db, 200);
    const ticket = await heldBack(org, limits);
    const waiting = post('redeem-ticket', { ...ticket, wait_ms: 30_000 });
    const waiters = 'select request_id from ticket_waiters where request_id = :request_id';
    const { request_id } = ticket;
    await until(async () => (await many(db, waiters, { request_id })).length > 0);
    // Another call uses up the session meanwhile.
    expect((await post('reserve', inSession(org, 100, limits))).status).toBe(200);
    await pay(org);
    expect(told(await waiting)).toMatchObject(refused);
    expect(told(await post('redeem-ticket', ticket))).toMatchObject(refused);
    expect(told(await post('reserve', inSession(org, 2_000, limits)))).toMatchObject(refused);
  },
);

test('a redeem of a session that has room is held', async () => {
  const org = await makeFundedOrg(db, 200);
  const ticket = await heldBack(org, { max_actions: 2 });
  await pay(org);
  const { status, body } = await post('redeem-ticket', ticket);
  expect(status).toBe(200);
  expect((await post('settle', settleBody(org.org_id, body.reservation_id, 100))).status).toBe(200);
});
