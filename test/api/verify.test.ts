import { Left } from '../../api/verify/client';
import type { Deployment } from '../../api/verify/deployment';
import { cancelAHold } from '../../api/verify/hold';
import { openProbe } from '../../api/verify/probe';
import { makeBudget } from '../domain/budgets/making';
import { makeTenant, serve, type Tenant } from '../support/api';
import { issueKey, platformKey } from '../support/keys';
import { credit, makePrice, TOKEN } from '../support/ledger';
import { openTicketWorld, type TicketWorld } from '../support/tickets';

let world: TicketWorld;
let url: string;
let close: () => Promise<void>;

beforeAll(async () => {
  world = await openTicketWorld();
  ({ url, close } = await serve({ db: world.db, temporal: world.temporal }));
});
afterAll(async () => {
  await close();
  await world.close();
});

test.each([
  ['nothing', undefined, /and its cancel left nothing$/],
  ['a budget', 'budget', /answers 402/],
  ['an empty wallet', 'wallet', /answers 402/],
])('a hold of a check that %s stops leaves no open ticket', async (_, stopped_by, words) => {
  const { db } = world;
  await makePrice(db);
  const tenant = await makeTenant(db);
  if (stopped_by !== 'wallet')
    await credit(db, tenant.org_id, tenant.wallet_id, 1_000_000n * TOKEN);
  const gateway_key = await issueKey(db, tenant.org_id, { token_type: 'gateway' });
  if (stopped_by === 'budget')
    await makeBudget(db, tenant, 1, {
      ...{ on_exceed: 'ticket', owner_type: 'organization', owner_id: tenant.org_id },
    });
  const platform_key = await platformKey(db);
  const probe = openProbe(url, platform_key, gateway_key.key);
  const deployment = { apis: [{ url, version: '1.5.0' }], platform_key, probe };
  const said = await cancelAHold(deployment as unknown as Deployment).catch(
    ({ message }: Error) => message,
  );
  await probe.close();
  expect(said).toMatch(words);
  const tickets = await db('cost_tickets')
    .where({ org_id: tenant.org_id })
    .select('status', 'note');
  expect(tickets.map(({ status }) => status)).toEqual(stopped_by === undefined ? [] : ['denied']);
});

test('the entries of a hold are found in a wallet that hundreds of others write to', async () => {
  const { db } = world;
  await makePrice(db);
  const tenant = await makeTenant(db);
  await credit(db, tenant.org_id, tenant.wallet_id, 1_000_000n * TOKEN);
  const gateway_key = await issueKey(db, tenant.org_id, { token_type: 'gateway' });
  const platform_key = await platformKey(db);
  const probe = openProbe(url, platform_key, gateway_key.key);
  const deployment = { apis: [{ url, version: '1.5.0' }], platform_key, probe };
  const { fetch: send } = globalThis;
  const sending = jest.spyOn(globalThis, 'fetch').mockImplementation(async (...sent) => {
    if (String(sent[0]).includes('/transactions'))
      for (let n = 0; n < 201; n += 1) await credit(db, tenant.org_id, tenant.wallet_id, 1n);
    return send(...sent);
  });
  const said = await cancelAHold(deployment as unknown as Deployment);
  sending.mockRestore();
  await probe.close();
  expect(said).toMatch(/and its cancel left nothing$/);
});

/** Reserves are cut off for the client: before they leave, or with their answer. */
async function cutOff(tenant: Tenant, { is_late = false, is_gone = false } = {}) {
  const { db } = world;
  const gateway_key = await issueKey(db, tenant.org_id, { token_type: 'gateway' });
  const platform_key = await platformKey(db);
  const probe = openProbe(url, platform_key, gateway_key.key);
  await probe.owner();
  const { fetch: send } = globalThis;
  let late: (() => Promise<Response>) | undefined;
  const sending = jest.spyOn(globalThis, 'fetch').mockImplementation(async (...sent) => {
    const at = String(sent[0]);
    const lost = new DOMException('It took too long.', 'TimeoutError');
    if (is_gone && at.includes('/settle')) throw lost;
    if (!at.includes('/reserve')) return send(...sent);
    late = () => send(at, { ...sent[1], signal: null });
    if (!is_late) await late();
    throw lost;
  });
  const deployment = { apis: [{ url, version: '1.5.0' }], platform_key, probe };
  const error = await cancelAHold(deployment as unknown as Deployment).catch((one: Error) => one);
  sending.mockRestore();
  await probe.close();
  return { error, arrive: async () => (await late?.())?.status };
}

const openHolds = ({ org_id }: Tenant) =>
  world.db('reservations').where({ org_id, status: 'open' });

async function richTenant(): Promise<Tenant> {
  await makePrice(world.db);
  const tenant = await makeTenant(world.db);
  await credit(world.db, tenant.org_id, tenant.wallet_id, 1_000_000n * TOKEN);
  return tenant;
}

test('a hold whose answer is lost is given back', async () => {
  const tenant = await richTenant();
  const { error } = await cutOff(tenant);
  expect(error).toMatchObject({
    name: 'Late',
    message: expect.stringContaining('/reserve has no'),
  });
  expect(await openHolds(tenant)).toEqual([]);
  expect(await world.db('reservations').where({ org_id: tenant.org_id })).toHaveLength(1);
});

test('a reserve that arrives after it was given up holds nothing', async () => {
  const tenant = await richTenant();
  const { error, arrive } = await cutOff(tenant, { is_late: true });
  expect(error).toMatchObject({ name: 'Late' });
  expect(await arrive()).toBeGreaterThanOrEqual(400);
  expect(await openHolds(tenant)).toEqual([]);
});

test('a cost ticket of a reserve whose answer is lost is closed', async () => {
  await makePrice(world.db);
  const tenant = await makeTenant(world.db);
  const { error } = await cutOff(tenant);
  expect(error).toMatchObject({ name: 'Late' });
  const tickets = await world.db('cost_tickets').where({ org_id: tenant.org_id });
  expect(tickets.map(({ status }) => status)).toEqual(['denied']);
});

test('what cannot be taken back is said to be left', async () => {
  const { error } = await cutOff(await richTenant(), { is_gone: true });
  expect(error).toBeInstanceOf(Left);
  expect(error).toMatchObject({ message: expect.stringMatching(/call verify-\S+ may be left/) });
});

test('a key whose making has no answer is revoked', async () => {
  const { db } = world;
  const { fetch: send } = globalThis;
  const sending = jest.spyOn(globalThis, 'fetch').mockImplementation(async (...sent) => {
    const answer = await send(...sent);
    if (String(sent[0]).endsWith('/v1/tokens')) throw new DOMException('', 'TimeoutError');
    return answer;
  });
  const probe = openProbe(url, await platformKey(db), 'svc_gk_x');
  await expect(probe.controlPlaneKey()).rejects.toThrow('has no answer');
  const living = () => db('tokens').whereLike('name', 'verify %').whereNull('revoked_at');
  expect(await living()).toHaveLength(1);
  await probe.close();
  sending.mockRestore();
  expect(await living()).toEqual([]);
  const never = openProbe(url, 'svc_ak_x', 'svc_gk_x');
  await never.close();
});
