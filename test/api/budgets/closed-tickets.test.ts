import { makeBudget } from '../../domain/budgets/making';
import { makeTenant, refusal } from '../../support/api';
import { credit, TOKEN } from '../../support/ledger';
import {
  approve,
  deny,
  makeShort,
  openTicketWorld,
  show,
  type TicketWorld,
} from '../../support/tickets';

// What a ticket says once it is decided.

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

/** A call of 100 tokens that a budget of 60 has no room for. */
async function beyondBudget() {
  const tenant = await makeTenant(world.db);
  await credit(world.db, tenant.org_id, tenant.wallet_id, 1_000n * TOKEN);
  const { id } = await makeBudget(world.db, tenant, 60, { on_exceed: 'ticket' });
  const short = await makeShort(world, 100, {}, tenant);
  const missed = { id, window: 'month', limit: 0.00006, used: 0, missing: 0.00004 };
  return { short, missed };
}

test('an approval of a budget says by how much it raised which budget, alone and among others', async () => {
  const { short, missed } = await beyondBudget();
  const raised = { ...missed, raised: 0.00004 };
  expect((await approve(world.call, short)).body).toMatchObject({
    ...{ status: 'approved', credited_amount: 0, cause: 'budget', budget: raised },
    budgets: [raised],
  });
  expect(await show(world.call, short)).toMatchObject({ cause: 'budget', budgets: [raised] });
  const { body } = await world.call('get', '/v1/cost-tickets?cause=budget', {
    key: short.billing_key,
  });
  expect(body.tickets).toMatchObject([{ id: short.ticket_id, budgets: [raised] }]);
});

test('a denial says which budget had no room, and that nothing was raised', async () => {
  const { short, missed } = await beyondBudget();
  const body = { verdict: 'deny', ticket_ids: [short.ticket_id] };
  const answer = await world.call('post', '/v1/cost-tickets/verdicts', {
    ...{ key: short.billing_key, body },
  });
  const [{ ticket }] = answer.body.results;
  expect(ticket).toMatchObject({ status: 'denied', budget: missed, budgets: [missed] });
  expect(ticket.budget).not.toHaveProperty('raised');
});

test('a ticket of money alone says so, by the word that finds it', async () => {
  const short = await makeShort(world, 100);
  const { body } = await world.call('get', '/v1/cost-tickets?cause=balance', {
    key: short.billing_key,
  });
  expect(body.tickets).toMatchObject([{ id: short.ticket_id, cause: 'balance' }]);
  expect(body.tickets[0]).not.toHaveProperty('budgets');
});

test('note and reason are one text of a denial, by itself and among others', async () => {
  const tenant = await makeTenant(world.db);
  const bulk = async (words: object) => {
    const { ticket_id } = await makeShort(world, 100, {}, tenant);
    const body = { verdict: 'deny', ticket_ids: [ticket_id], ...words };
    return world.call('post', '/v1/cost-tickets/verdicts', { key: tenant.billing_key, body });
  };
  const single = async (words: object) =>
    deny(world.call, await makeShort(world, 100, {}, tenant), words);
  for (const words of [{ note: 'no' }, { reason: 'no' }, { note: 'no', reason: 'no' }]) {
    expect((await single(words)).body).toMatchObject({ status: 'denied', note: 'no' });
    expect((await bulk(words)).body.results).toMatchObject([{ ticket: { note: 'no' } }]);
  }
  const both = { note: 'no', reason: 'yes' };
  for (const answer of [await single(both), await bulk(both)])
    expect(refusal(answer)).toMatchObject({ status: 422, param: 'reason' });
});
