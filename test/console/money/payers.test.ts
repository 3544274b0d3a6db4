import { payersOf } from '../../../console/web/wallets/payers';

const balance = {
  user_balance: 0,
  team_balance: 0,
  org_balance: 100,
  effective_available_balance: 100,
  effective_wallet_owner_type: 'organization',
  reserve_buffer_pct: 10,
  currency: 'USD',
} as const;

/** Somebody in the teams of these balances, as the API tells of them. */
function personIn(balances: Record<string, number>) {
  const names = Object.keys(balances);
  const teams = names.map((name) => ({ team_id: `id of ${name}`, name, role: 'member' as const }));
  const wallets = [
    { team_id: null, ...balance },
    ...names.map((name) => ({
      ...balance,
      team_id: `id of ${name}`,
      team_balance: balances[name] ?? 0,
    })),
  ];
  const here = { org_id: 'org_1', name: 'Acme', currency: 'USD', time_zone: 'UTC', teams };
  const user = { user_id: 'user_1', name: 'Ada', email: null };
  return { user, org_id: 'org_1', memberships: [{ ...here, role: 'member' as const }], wallets };
}

const lines = ({ rows }: ReturnType<typeof payersOf>) =>
  rows.map(({ words, amount, pays }) => [words, amount, pays]);

test('of somebody in several teams with money each team is named, and what pays depends on the key', () => {
  const found = payersOf(personIn({ Blue: 30, Red: 0, Green: 5 }), balance);
  expect(lines(found)).toEqual([
    ['Your wallet', 0, undefined],
    ['The team Blue', 30, 'for calls of its keys'],
    ['The team Red', 0, undefined],
    ['The team Green', 5, 'for calls of its keys'],
    ['The organization', 100, 'for calls of other keys'],
  ]);
  expect(found.payer).toBeUndefined();
});

test('what a person has pays for every key, and the organization if no team has money', () => {
  const rich = payersOf(personIn({ Blue: 30, Red: 0 }), { ...balance, user_balance: 7 });
  expect(rich.payer).toEqual({ type: 'user', amount: 7 });
  expect(rich.rows.filter(({ pays }) => pays !== undefined)).toMatchObject([
    { words: 'Your wallet' },
  ]);
  const poor = payersOf(personIn({ Blue: 0, Red: -2 }), balance);
  expect(poor.payer).toEqual({ type: 'organization', amount: 100 });
  expect(poor.rows.filter(({ pays }) => pays !== undefined)).toMatchObject([
    { words: 'The organization', pays: 'now' },
  ]);
});

test('an only team is named, and somebody without one is told of none', () => {
  const of_team = {
    ...balance,
    team_balance: 30,
    effective_available_balance: 30,
    effective_wallet_owner_type: 'team',
  } as const;
  expect(lines(payersOf(personIn({ Blue: 30 }), of_team))).toEqual([
    ['Your wallet', 0, undefined],
    ['The team Blue', 30, 'now'],
    ['The organization', 100, undefined],
  ]);
  expect(lines(payersOf(personIn({}), balance))).toEqual([
    ['Your wallet', 0, undefined],
    ['The organization', 100, 'now'],
  ]);
});

test('teams whose balance is not told may pay too', () => {
  const many = personIn({ Blue: 0, Red: 0 });
  const found = payersOf({ ...many, wallets: many.wallets.slice(0, 2) }, balance);
  expect(found.payer).toBeUndefined();
});

test('an operator, who has no wallet, is shown none of their own', () => {
  const operator = { user: null, org_id: null, memberships: [], wallets: [] };
  expect(lines(payersOf(operator, balance))).toEqual([['The organization', 100, 'now']]);
});
