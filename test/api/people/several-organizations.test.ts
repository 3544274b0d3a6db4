import { type Db, many } from '../../../domain/sql';
import {
  type Answer,
  type CallApi,
  makePerson,
  makeTenant,
  type Person,
  refusal,
  startApi,
  type Tenant,
} from '../../support/api';
import { locksAwaited } from '../../support/database';
import { platformKey } from '../../support/keys';
import { until } from '../../support/until';

// A person of two organizations has one name and one address, which is nobody else's in either.

let db: Db;
let call: CallApi;
let close: () => Promise<void>;
let platform: string;
let here: Tenant;
let there: Tenant;
let person: Person;

beforeAll(async () => {
  ({ db, call, close } = await startApi());
  platform = await platformKey(db);
});

beforeEach(async () => {
  [here, there] = [await makeTenant(db), await makeTenant(db)];
  person = await makePerson({ db, call }, here, 'member');
});

afterAll(() => close());

const people = ({ org_id }: Tenant) => `/v1/organizations/${org_id}/members`;
const join = (tenant: Tenant) =>
  call('post', people(tenant), { key: platform, body: { user_id: person.user_id } });
const rename = (body: object) => call('patch', person.at, { key: platform, body });
const taken = { status: 409, code: 'already_exists', param: 'email' };

test('an address of a member of either is taken, in any case', async () => {
  expect((await join(there)).status).toBe(201);
  const body = { name: 'Q', email: 'x@y.example' };
  const other = await call('post', people(there), { key: there.owner_key, body });
  expect(other.status).toBe(201);
  expect(refusal(await rename({ email: 'X@y.example' }))).toEqual(taken);
  // A change of the name leaves the address, and one of the address the name.
  expect((await rename({ email: 'p@y.example' })).status).toBe(200);
  expect((await rename({ name: 'P' })).body).toMatchObject({ name: 'P', email: 'p@y.example' });
  const gone = `${people(there)}/${other.body.user_id}`;
  await call('delete', gone, { key: there.owner_key });
  expect((await rename({ email: 'x@y.example' })).body).toMatchObject({
    ...{ name: 'P', email: 'x@y.example' },
  });
});

test('somebody who takes the address elsewhere meanwhile is waited for', async () => {
  await join(there);
  let renaming: Promise<Answer> | undefined;
  await db.transaction(async (trx) => {
    await many(trx, 'select from lock_organization(:org_id)', { org_id: there.org_id });
    renaming = rename({ email: 'x@y.example' });
    await until(async () => (await locksAwaited(db)) > 0);
    await many(
      trx,
      `with u as (insert into users (name, email) values ('Q', 'x@y.example') returning id)
       insert into memberships (org_id, user_id, role) select :org_id, id, 'member' from u`,
      { org_id: there.org_id },
    );
  });
  expect(refusal((await renaming) as Answer)).toEqual(taken);
});
