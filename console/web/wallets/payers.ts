import type { Answer } from '../api/client';

type Me = Answer<'GET /api/me'>;
type Balance = Answer<'GET /api/wallets/balance'>;

/** A wallet that may pay for a person's calls. */
export interface Payer {
  /** The id of a team, or whose it is. */
  id: string;
  words: string;
  amount: number;
  /** For which calls it pays now; undefined: for none. */
  pays: string | undefined;
}

/** The wallets that may pay for somebody, and the one that does. */
export interface Payers {
  rows: Payer[];
  /** Undefined: it depends on the team of the key that calls. */
  payer: { type: Balance['effective_wallet_owner_type']; amount: number } | undefined;
}

/**
 * What pays for the viewer's calls, and in which order: their own wallet, that of the key's team,
 * the organization's. Of somebody in several teams each team has its own row; an operator or a key
 * without an owner has no wallet.
 * @param balance what pays without a team, where the only one counts
 */
export function payersOf(
  { user, org_id, memberships, wallets }: Pick<Me, 'user' | 'org_id' | 'memberships' | 'wallets'>,
  balance: Balance,
): Payers {
  const person = user === null ? [] : [personOf(balance)];
  const teams = memberships.find((one) => one.org_id === org_id)?.teams ?? [];
  if (teams.length < 2) return singleOf(person, teams[0], balance);
  const known = teams.flatMap(({ team_id, name }) => {
    const found = wallets.find((one) => one.team_id === team_id);
    return found ? [{ team_id, name, amount: found.team_balance }] : [];
  });
  const mine = balance.user_balance > 0;
  // Of many teams the balances of some are not told.
  const depends = !mine && (known.length < teams.length || known.some(({ amount }) => amount > 0));
  const others = depends ? 'for calls of other keys' : 'now';
  const rows = [
    ...person.map((one) => ({ ...one, pays: mine ? 'now' : undefined })),
    ...known.map(({ team_id, name, amount }) => ({
      id: team_id,
      words: `The team ${name}`,
      amount,
      pays: depends && amount > 0 ? 'for calls of its keys' : undefined,
    })),
    { ...organization(balance), pays: mine ? undefined : others },
  ];
  if (depends) return { rows, payer: undefined };
  const payer = mine
    ? ({ type: 'user', amount: balance.user_balance } as const)
    : ({ type: 'organization', amount: balance.org_balance } as const);
  return { rows, payer };
}

function singleOf(
  person: readonly Omit<Payer, 'pays'>[],
  team: { team_id: string; name: string } | undefined,
  balance: Balance,
): Payers {
  const type = balance.effective_wallet_owner_type;
  const of_team = team && {
    id: team.team_id,
    words: `The team ${team.name}`,
    amount: balance.team_balance,
  };
  const pays = (one: typeof type) => (type === one ? 'now' : undefined);
  return {
    rows: [
      ...person.map((one) => ({ ...one, pays: pays('user') })),
      ...(of_team ? [{ ...of_team, pays: pays('team') }] : []),
      { ...organization(balance), pays: pays('organization') },
    ],
    payer: { type, amount: balance.effective_available_balance },
  };
}

const personOf = ({ user_balance }: Balance) => ({
  id: 'user',
  words: 'Your wallet',
  amount: user_balance,
});
const organization = ({ org_balance }: Balance) => ({
  id: 'organization',
  words: 'The organization',
  amount: org_balance,
});
