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
