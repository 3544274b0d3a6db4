import { randomUUID } from 'node:crypto';
import { refusal, type Tenant } from '../../support/api';
import { makeKey } from '../../support/keys';
import { inFlight } from '../../support/ledger';
import { makeBuyer, openPaymentWorld, type PaymentWorld, wish } from '../../support/payments/world';

let world: PaymentWorld;

beforeAll(async () => {
  world = await openPaymentWorld();
  await world.use('payment_provider_a');
});
afterAll(() => world.close());

/** The answer, repeated under its key while it says that Temporal was not in time. */
async function create(key: string, once: string = randomUUID()) {
  const headers = { 'idempotency-key': once };
  const ask = () =>
    world.call('post', '/v1/payments/create-checkout', { key, body: wish, headers });
  let answer = await ask();
  for (let tries = 0; answer.status === 503 && tries < 10; tries += 1) answer = await ask();
  return answer;
}

/** Open sessions of an organization, as many as others of its people have made. */
async function fill({ org_id, wallet_id }: Tenant, count: number): Promise<void> {
  await world.db.raw(
    `insert into payment_sessions (org_id, created_by, provider, surface, amount_nanos, currency, target_wallet_owner_type,
       wallet_id, return_url, cancel_url)
     select :org_id, 'key ' || n, 'payment_provider_a', 'console', 1, 'USD', 'organization', :wallet_id, 'x', 'x'
     from generate_series(1, :count) as n`,
    { org_id, wallet_id, count },
  );
}

const sessions = ({ org_id }: Tenant) => world.db('payment_sessions').where({ org_id });

test('a person has at most 20 checkouts open, however many are asked for at once; a known Idempotency-Key finds its own, and an end makes room', async () => {
  const buyer = await makeBuyer(world.db);
  const first = await create(buyer.member_key, 'first');
  const asked = Array.from({ length: 30 }, (_, n) => () => create(buyer.member_key, `of ${n}`));
  const answers = await inFlight(30, asked);
  const refused = answers.filter(({ status }) => status !== 201);
  expect(refused).toHaveLength(11);
  expect(new Set(refused.map((answer) => refusal(answer).code))).toEqual(
    new Set(['open_checkouts_exceeded']),
  );
  const [one] = refused;
  expect([one?.status, one?.headers]).toMatchObject([
    429,
    { 'x-ratelimit-limit': '20', 'x-ratelimit-remaining': '0', 'x-should-retry': 'false' },
  ]);
  expect(Number(one?.headers['retry-after'])).toBeGreaterThan(3_000);
  expect(Number(one?.headers['x-ratelimit-reset'])).toBeGreaterThan(Date.now() / 1_000);
  expect(await sessions(buyer)).toHaveLength(20);
  expect((await create(buyer.member_key, 'first')).body).toEqual(first.body);
  // Another person of the organization has a bound of its own.
  const other = await makeKey(world.db, buyer.org_id, {});
  expect((await create(other)).status).toBe(201);
  const { payment_session_id } = first.body;
  await world.call('post', `/v1/payments/sessions/${payment_session_id}/cancel`, {
    key: buyer.member_key,
  });
  expect((await create(buyer.member_key)).status).toBe(201);
});

test('an organization has at most 200 checkouts open, and another one is not held up by them', async () => {
  const buyer = await makeBuyer(world.db);
  await fill(buyer, 199);
  expect((await create(buyer.member_key)).status).toBe(201);
  const answer = await create(buyer.member_key);
  expect(refusal(answer)).toMatchObject({ status: 429, code: 'open_checkouts_exceeded' });
  expect(answer.headers['x-ratelimit-limit']).toBe('200');
  expect(await sessions(buyer)).toHaveLength(200);
  expect((await create((await makeBuyer(world.db)).member_key)).status).toBe(201);
  // Those whose time is over count no more.
  await sessions(buyer).where({ created_by: 'key 1' }).update({ expires_at: new Date() });
  expect((await create(buyer.member_key)).status).toBe(201);
});

test('the key of a checkout whose payment failed says so, and not the page where it was refused', async () => {
  const { member_key } = await makeBuyer(world.db);
  const { payment_session_id: id } = (await create(member_key, 'declined')).body;
  await world.db.raw("select fail_payment(:id, 'declined', 'The card was declined.')", { id });
  const { code, message } = (await create(member_key, 'declined')).body.error;
  expect([code, message]).toEqual(['payment_state', expect.stringContaining('is failed')]);
  expect((await create(member_key, 'another')).status).toBe(201);
});
