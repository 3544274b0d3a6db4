import { randomUUID } from 'node:crypto';
import * as reservations from '../../../domain/ledger/reservations';
import * as keys from '../../../domain/people/keys';
import * as tokens from '../../../domain/people/tokens';
import type { Db } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makeTenant,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { gatewayToken, makeKey } from '../../support/keys';
import { makeOverdue, makePrice, reserveBody, settleBody } from '../../support/ledger';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let key: string;
let tenant: Tenant;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  key = await gatewayToken(db);
  tenant = await funded();
  await makePrice(db);
});

afterAll(() => close());

function post(path: string, body: object): Promise<Answer> {
  return call('post', `/v1/gateway/${path}`, { key, body });
}

async function funded(): Promise<Tenant> {
  const made = await makeTenant(db);
  const body = { target_wallet_owner_type: 'organization', amount: 1 };
  await call('post', '/v1/wallets/credit', { key: made.billing_key, body });
  return made;
}

test('verify says who a living gateway key is, and refuses every other with 401', async () => {
  const { org_id, member_id: user_id, team_id, agent_id } = tenant;
  const name = randomUUID();
  const bound = { user_id, team_id, agent_id, allowed_models: ['gpt-4o'] };
  const given = await makeKey(db, org_id, { name, token_type: 'gateway', ...bound });
  const verify = (value: string) =>
    call('post', '/v1/gateway/keys/verify', { key, body: { key: value } });
  const first = await verify(given);
  const { id: key_id } = await tokens.find(db, org_id, name);
  expect([first.status, first.body]).toEqual([
    200,
    { key_id, secret_id: expect.stringMatching(/^sec_/), org_id, ...bound, expires_at: null },
  ]);
  const rotate = `/v1/tokens/${name}/rotate`;
  const rotated = await call('post', rotate, {
    key: tenant.owner_key,
    body: { overlap_seconds: 60 },
  });
  const second = await verify(rotated.body.key);
  expect(second.body).toEqual({ ...first.body, secret_id: expect.any(String) });
  expect(second.body.secret_id).not.toBe(first.body.secret_id);
  const wrong = [
    `${given.slice(0, -1)}${given.endsWith('A') ? 'B' : 'A'}`,
    tenant.owner_key,
    'x',
    await keys.newKey('gateway'),
  ];
  await call('delete', `/v1/tokens/${name}`, { key: tenant.owner_key });
  for (const value of [...wrong, given, rotated.body.key]) {
    const answer = await verify(value);
    expect(refusal(answer)).toMatchObject({ status: 401, code: 'invalid_credential' });
    if (value.length > 12) expect(answer.text).not.toContain(value.slice(12));
  }
});

test('extend answers each item in its order: extended, expired, settled or unknown', async () => {
  const one = await funded();
  const two = await funded();
  const hold = async ({ org_id }: Tenant) =>
    (await post('wallets/reserve', reserveBody(org_id, 10))).body.reservation_id;
  const [open, overdue, closed, theirs] = [
    await hold(one),
    await hold(one),
    await hold(one),
    await hold(two),
  ];
  await makeOverdue(db, overdue);
  await reservations.sweep(db, one.org_id);
  await post('wallets/settle', settleBody(one.org_id, closed, 1));
  const item = ({ org_id }: Tenant, reservation_id: string) => ({ org_id, reservation_id });
  const items = [
    item(one, closed),
    item(two, theirs),
    item(one, open),
    item(one, 'res_x'),
    item(one, overdue),
  ];
  const { body } = await post('wallets/extend', { items });
  expect(body.results.map(({ status }: { status: string }) => status)).toEqual([
    'settled',
    'extended',
    'extended',
    'unknown',
    'expired',
  ]);
  expect(body.results.map((result: { reservation_id: string }) => result.reservation_id)).toEqual(
    items.map(({ reservation_id }) => reservation_id),
  );
});

test('a foreign item beside a known one of the same id does not hide it', async () => {
  const one = await funded();
  const two = await funded();
  const { reservation_id } = (await post('wallets/reserve', reserveBody(one.org_id, 10))).body;
  const items = [one, two].map(({ org_id }) => ({ org_id, reservation_id }));
  const { body } = await post('wallets/extend', { items });
  expect(body.results).toMatchObject([{ status: 'extended' }, { status: 'unknown' }]);
});
