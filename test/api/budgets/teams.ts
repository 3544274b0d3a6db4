import * as teams from '../../../domain/people/teams';
import { many } from '../../../domain/sql';
import { makePerson, makeTenant, type Person, type Tenant } from '../../support/api';
import type { TicketWorld } from '../../support/tickets';

export interface Team extends Tenant {
  lead: Person;
  asker: Person;
  team_wallet: string;
}

/** A tenant whose team has an admin and somebody who asks. */
export async function makeTeam(world: TicketWorld): Promise<Team> {
  const { db } = world;
  const tenant = await makeTenant(db);
  const { org_id, team_id } = tenant;
  const [lead, asker] = [
    await makePerson(world, tenant, 'member'),
    await makePerson(world, tenant, 'member'),
  ];
  for (const { user_id } of [lead, asker]) await teams.add(db, { org_id, team_id, user_id });
  await many(db, `update team_members set role = 'admin' where user_id = :user_id`, {
    user_id: lead.user_id,
  });
  const [wallet] = await many<{ id: string }>(
    db,
    `select id from ensure_wallet(:org_id, 'team', :team_id)`,
    { org_id, team_id },
  );
  return { ...tenant, lead, asker, team_wallet: wallet?.id ?? '' };
}

/** The members of a reserve of the team's asker. */
export const asks = ({ team_id, asker }: Team) => ({ team_id, user_id: asker.user_id });
