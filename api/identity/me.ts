import { z } from 'zod';
import { isAppError } from '../../domain/errors';
import { balancesFor } from '../../domain/ledger/balances';
import * as profile from '../../domain/people/profile';
import * as sessions from '../../domain/people/sessions';
import * as answers from '../answers/identity';
import { member } from '../http/access';
import { type Ctx, route } from '../http/route';

/** More teams than these are named, but without what pays for each. */
const WALLETS_MAX = 50;

export const meRoutes = [
  route({
    method: 'get',
    path: '/v1/me',
    access: member,
    input: z.strictObject({}),
    handler: me,
    summary: 'Who calls: the person, where they belong, what they may do, and what pays for them.',
    answer: answers.me,
  }),
];

async function me({ db, principal }: Ctx) {
  const { id, org_id, user_id, scopes } = principal;
  const person = user_id === null ? undefined : await profile.find(db, user_id);
  const memberships =
    user_id === null ? [] : await profile.memberships(db, { user_id, org_id, key_id: id });
  const session = await sessionOf(db, org_id, id);
  const here = memberships.find((one) => one.org_id === org_id);
  const teams = here?.teams.map(({ team_id }) => team_id) ?? [];
  return {
    user: person ?? null,
    org_id,
    permissions: scopes,
    session: session ?? null,
    memberships,
    wallets: org_id === null ? [] : await payers(db, { org_id, user_id }, teams),
  };
}

/** What pays without a team, where the person's only one counts, and then for each team. */
async function payers(
  db: Ctx['db'],
  person: { org_id: string; user_id: string | null },
  all: readonly string[],
) {
  const teams = all.slice(0, WALLETS_MAX);
  const only = all.length === 1 ? (all[0] ?? null) : null;
  const found = await balancesFor(db, person, [only, ...teams]);
  return found.map((one, n) => ({ team_id: n === 0 ? null : (teams[n - 1] ?? null), ...one }));
}

async function sessionOf(db: Ctx['db'], org_id: string | null, id: string) {
  try {
    const { expires_at, idle_ends_at } = await sessions.get(db, org_id, id);
    return { id, expires_at, idle_ends_at };
  } catch (error) {
    if (isAppError(error) && error.code === 'not_found') return undefined;
    throw error;
  }
}
