import { randomUUID } from 'node:crypto';
import type { Db } from '../../../domain/sql';
import { type CallApi, makeTenant, refusal, startApi, type Tenant } from '../../support/api';

let db: Db;
let call: CallApi;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
});

afterAll(() => close());

function issue({ owner_key: key }: Tenant) {
  return call('post', '/v1/tokens', { key, body: { name: randomUUID(), token_type: 'access' } });
}

test('an organization may have 10,000 living keys: one more is 409 until one of them is revoked or has ended', async () => {
  const full = await makeTenant(db);
  const { length: count } = await db('tokens').where({ org_id: full.org_id });
  await db.raw(
    `insert into tokens (org_id, name, token_type, created_by)
     select :org_id, 'Many ' || n, 'gateway', 'test' from generate_series(1, 10000 - :count) as n`,
    { org_id: full.org_id, count },
  );
  expect(refusal(await issue(full))).toMatchObject({
    status: 409,
    code: 'living_keys_exceeded',
  });
  const last = db('tokens').where({ org_id: full.org_id, name: 'Many 1' });
  await last.update({ expires_at: new Date() });
  expect((await issue(full)).status).toBe(201);
  expect((await issue(full)).status).toBe(409);
});

test('a key that expired stays so in answers and lists, once its name went to another one', async () => {
  const { org_id, owner_key: key } = await makeTenant(db);
  const path = '/v1/tokens';
  const make = (name: string) => call('post', path, { key, body: { name, token_type: 'gateway' } });
  const [first, taken] = [await make('CI'), await make('Old')];
  expect([first.status, taken.status]).toEqual([201, 201]);
  expect((await call('delete', `${path}/Old`, { key })).status).toBe(200);
  await db('tokens')
    .where({ org_id, name: 'CI' })
    .update({ expires_at: new Date(Date.now() - 60_000) });
  const shown = async (status: string) => {
    const { body } = await call('get', `${path}?status=${status}`, { key });
    return body.tokens.map((one: { name: string; status: string }) => [one.name, one.status]);
  };
  expect(await shown('expired')).toEqual([['CI', 'expired']]);
  expect((await make('CI')).status).toBe(201);
  expect(await shown('expired')).toEqual([['CI', 'expired']]);
  expect(await shown('revoked')).toEqual([['Old', 'revoked']]);
  expect(await shown('active')).toContainEqual(['CI', 'active']);
  const { id } = first.body;
  const all = (await call('get', `${path}?per_page=100`, { key })).body.tokens;
  expect(all.find((one: { id: string }) => one.id === id)).toMatchObject({ status: 'expired' });
});
