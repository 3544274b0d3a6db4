import { randomBytes } from 'node:crypto';
import * as buckets from '../../domain/exports/destinations';
import * as providerKeys from '../../domain/gateways/provider-keys';
import * as notices from '../../domain/notices/destinations';
import { accessOf, putConfig } from '../../domain/payments/config';
import * as issuers from '../../domain/people/issuers';
import { owner_of, resealAll } from '../../domain/sealed';
import { createSecrets, type Secrets } from '../../domain/secrets';
import { many } from '../../domain/sql';
import { openTestDatabase, type TestDatabase } from '../support/database';

let database: TestDatabase;
beforeAll(async () => {
  database = await openTestDatabase();
});
afterAll(() => database.close());

const old_key = randomBytes(32).toString('base64');
const new_key = randomBytes(32).toString('base64');

/** One secret of each kind, and two of a webhook that is being rotated; how each is read. */
async function sealEach(secrets: Secrets) {
  const { db } = database;
  const created_by = 'test';
  const provider = (webhook_secret: string) =>
    putConfig(db, secrets, {
      payment_provider_b: { credentials: { secret_key: 'sk_b' }, webhook_secret },
    });
  await provider('whsec_1');
  await provider('whsec_2');
  await providerKeys.createOfPlatform(db, secrets, { name: 'main', key: 'key-0001', by: 'test' });
  const at = {
    endpoint: 'https://s3.example',
    region: 'eu',
    bucket: 'b',
    org_id: null,
    created_by,
  };
  const bucket = await buckets.create(db, secrets, {
    ...at,
    ...{ access_key_id: 'AKIA1', secret_access_key: 'aws-secret' },
  });
  const to = { org_id: null, name: 'n', host: null, kinds: [], created_by };
  const [hook, slack] = await Promise.all([
    notices.create(db, secrets, {
      ...{ ...to, channel: 'webhook', url: 'https://hooks.example' },
      credentials: { secret: 'whsec_n' },
    }),
    notices.create(db, secrets, {
      ...{ ...to, channel: 'slack', url: null },
      credentials: { url: 'https://slack.example/secret' },
    }),
  ]);
  const issuer = await issuers.create(db, {
    ...{ org_id: null, name: 'Acme', issuer: 'https://id.example', client_id: 'c' },
    ...{ jwks_url: 'https://id.example/jwks', authorization_url: null, token_url: null },
    ...{ subject: 'bound', email_domains: [], groups_claim: null, group_grants: [] },
  });
  await issuers.setCredentials(
    db,
    issuer.id,
    await secrets.seal('of the client', owner_of.identity_issuer(issuer.id)),
  );
  return {
    bucket_id: bucket.id,
    read: async (by: Secrets) => {
      const { credentials, webhook_secrets } = await accessOf(db, by, 'payment_provider_b');
      const key = await providerKeys.openFor(db, by, { name: 'main' }, 'test');
      const { access_key_id, secret_access_key } = await buckets.open(db, by, bucket.id);
      const { credentials: client } = await issuers.get(db, issuer.id);
      return [
        ...[credentials, webhook_secrets, key?.key, access_key_id, secret_access_key],
        (await notices.open(db, by, hook.id)).secret,
        (await notices.open(db, by, slack.id)).url,
        await by.open(client as string, owner_of.identity_issuer(issuer.id)),
      ];
    },
  };
}

/** All that the database holds, but for its log of changes. */
async function everything(): Promise<string> {
  const tables = await many<{ name: string }>(
    database.db,
    `select tablename as name from pg_tables where schemaname = 'public'`,
  );
  const rows: string[] = [];
  for (const { name } of tables)
    for (const { row } of await many<{ row: string }>(
      database.db,
      `select t::text as row from "${name}" t`,
    ))
      rows.push(row);
  return rows.join('\n');
}

test('after a reseal no stored secret needs the old key, and one that no key opens is named', async () => {
  const { db } = database;
  const [before, both, after] = [old_key, `${new_key}, ${old_key}`, new_key].map(createSecrets) as [
    Secrets,
    Secrets,
    Secrets,
  ];
  const { bucket_id, read } = await sealEach(before);
  const texts = await read(before);
  expect(texts.flat()).toEqual([
    ...[{ secret_key: 'sk_b' }, 'whsec_2', 'whsec_1', 'key-0001', 'AKIA1', 'aws-secret', 'whsec_n'],
    ...['https://slack.example/secret', 'of the client'],
  ]);
  // With both keys all works before and after.
  expect(await read(both)).toEqual(texts);
  await expect(read(after)).rejects.toThrow('another SVC_SECRETS_KEY');
  const name_of_old = (await before.seal('', '')).split('.')[1] as string;
  expect(await everything()).toContain(`v1.${name_of_old}.`);
  expect(await resealAll(db, both, 'terminal')).toEqual({ rows: 6, unreadable: [] });
  expect(await everything()).not.toContain(`v1.${name_of_old}.`);
  for (const secrets of [both, after]) expect(await read(secrets)).toEqual(texts);
  // Each row that was sealed anew says so in the log, and no other is written.
  expect(await resealAll(db, both, 'terminal')).toEqual({ rows: 0, unreadable: [] });
  const logged = await many<{ action: string }>(
    db,
    `select distinct action from audit_events where actor = 'terminal' order by action`,
  );
  expect(logged.map(({ action }) => action)).toEqual([
    ...['export_destination.changed', 'identity_issuer.changed', 'notice_destination.changed'],
    ...['payment_provider.changed', 'provider_key.changed'],
  ]);
  const lost = await createSecrets(randomBytes(32).toString('base64')).seal('x', 'y');
  await many(
    db,
    `update export_destinations set credentials = credentials || jsonb_build_object('access_key_id', :lost::text)`,
    { lost },
  );
  expect(await resealAll(db, both, 'terminal')).toEqual({
    ...{ rows: 0, unreadable: [`export_destinations ${bucket_id}`] },
  });
});
