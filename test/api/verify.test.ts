import type { Deployment } from '../../api/verify/deployment';
import { cancelAHold } from '../../api/verify/hold';
import { openProbe } from '../../api/verify/probe';
import { makeBudget } from '../domain/budgets/making';
import { makeTenant, serve } from '../support/api';
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
