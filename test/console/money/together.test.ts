import { amountOf, nanosOf } from '../../../console/web/base/decimals';
import { type Asking, addedTogether } from '../../../console/web/tickets/together';
import { makeTenant } from '../../support/api';
import { credit, TOKEN } from '../../support/ledger';
import { makeShort, openTicketWorld, show } from '../../support/tickets';

type Owner = Asking['wallets'][number]['owner_type'];

/** A call that may cost so much, with what the wallets have that may pay. */
function asking(estimated_cost: number, has: Partial<Record<Owner, number>>, cause = 'balance') {
  const wallets = Object.entries(has).map(([owner, balance]) => ({
    ...{ wallet_id: `wal_${owner}`, owner_type: owner as Owner, balance },
    shortfall: Math.max(0, estimated_cost - balance),
  }));
  return { cause: cause as 'balance' | 'budget', estimated_cost, wallets };
}

const by_hand = { giver: null, is_of_team: false };
const by_team = { giver: 'team', is_of_team: true } as const;
const by_bank = { giver: 'organization', is_of_team: false } as const;

test.each([
  ['two of a wallet that is not empty', [8, 8].map((c) => asking(c, { user: 5 })), by_hand, 11],
  ['two that fit together', [2, 3].map((c) => asking(c, { user: 5 })), by_hand, 0],
  ['one of a wallet in debt', [asking(8, { user: -2 })], by_hand, 10],
  [
    'the fullest of two holds each',
    [8, 8].map((c) => asking(c, { user: 6, organization: 7 })),
    by_hand,
    3,
  ],
  [
    'a call of a budget is paid by the nearest that covers it',
    [asking(5, { user: 5, organization: 9 }, 'budget'), asking(9, { organization: 9 }, 'budget')],
    by_hand,
    0,
  ],
  [
    'the money of the team moves, and holds nothing itself',
    [8, 8].map((c) => asking(c, { user: 5, team: 6 })),
    by_team,
    11,
  ],
  [
    'the money of the organization moves to the person',
    [8, 8].map((c) => asking(c, { user: 1, organization: 7 })),
    by_bank,
    15,
  ],
  ['nobody has a wallet that may pay', [asking(8, {})], by_hand, 0],
] as const)('%s', (_, tickets, by, added) => {
  expect(amountOf(addedTogether(tickets, by))).toBe(added);
});

test('decimals are added exactly', () => {
  const tickets = [0.1, 0.2, 0.3].map((cost) => asking(cost, { user: 0.05 }));
  expect(amountOf(addedTogether(tickets, by_hand))).toBe(0.55);
});

test('the API adds as much as is said: each call holds its own before the next', async () => {
  const world = await openTicketWorld();
  try {
    const tenant = await makeTenant(world.db);
    const { org_id, wallet_id, billing_key: key } = tenant;
    await credit(world.db, org_id, wallet_id, 5_000n * TOKEN);
    const shorts = [
      await makeShort(world, 8_000, {}, tenant),
      await makeShort(world, 8_000, {}, tenant),
      await makeShort(world, 6_000, {}, tenant),
    ];
    const asked = await Promise.all(shorts.map((short) => show(world.call, short)));
    const said = addedTogether(asked as Asking[], by_hand);
    const ticket_ids = shorts.map(({ ticket_id }) => ticket_id);
    const { status, body } = await world.call('post', '/v1/cost-tickets/verdicts', {
      ...{ key, body: { verdict: 'approve', ticket_ids } },
    });
    expect(status).toBe(200);
    const given = (body.results as { ticket: { credited_amount: number | null } }[]).map(
      ({ ticket }) => ticket,
    );
    const added = given.reduce((all, one) => all + nanosOf(one.credited_amount ?? 0), 0n);
    expect([said, added]).toEqual([17_000n * TOKEN, 17_000n * TOKEN]);
  } finally {
    await world.close();
  }
});
