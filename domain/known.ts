import { AppError } from './errors';
import { type Db, many, maybe } from './sql';

// Also what was archived or revoked: its calls are still there.
const known = {
  member_of: [
    'team',
    'select 1 from teams where id = :id and (:org_id::text is null or org_id = :org_id)',
  ],
  team_id: [
    'team',
    'select 1 from teams where id = :id and (:org_id::text is null or org_id = :org_id)',
  ],
  user_id: [
    'member',
    'select 1 from memberships where user_id = :id and (:org_id::text is null or org_id = :org_id)',
  ],
  agent_id: [
    'agent',
    'select 1 from agents where id = :id and (:org_id::text is null or org_id = :org_id)',
  ],
  key_id: [
    'key',
    'select 1 from tokens where id = :id and (:org_id::text is null or org_id = :org_id)',
  ],
  destination_id: [
    'destination',
    'select 1 from notice_destinations where id = :id and org_id is not distinct from :org_id',
  ],
  message_id: [
    'message',
    `select 1 from notice_messages m join notice_destinations d on d.id = m.destination_id
     where m.id = :id and d.org_id is not distinct from :org_id`,
  ],
  cost_ticket_id: [
    'cost ticket',
    'select 1 from cost_tickets where id = :id and (:org_id::text is null or org_id = :org_id)',
  ],
} as const;

/**
 * Refuses (404) ids in a filter that are not the organization's own. Without an organization (null)
 * the platform's own are known; of kinds that it has none of, those of every organization.
 */
export async function requireKnown(
  db: Db,
  org_id: string | null,
  filter: { [param in keyof typeof known]?: string | undefined },
): Promise<void> {
  for (const [param, [noun, sql]] of Object.entries(known)) {
    const id = filter[param as keyof typeof known];
    if (id === undefined || (await maybe(db, sql, { id, org_id }))) continue;
    throw new AppError('not_found', `No ${noun} was found under this id.`, { param });
  }
}

/** The refusal (404) of an organization that is none, or that has ended. */
export function noOrganization(): AppError {
  return new AppError('not_found', 'No organization was found under this id.', {
    param: 'org_id',
  });
}

/**
 * The one lock of an organization, taken first by every function of money and rights: its own
 * wallet's row. It orders wallets, budgets, tickets, keys and settings of that organization, and is
 * held to the end of the transaction.
 */
export async function lockOrganization(trx: Db, org_id: string): Promise<void> {
  await many(trx, 'select from lock_organization(:org_id)', { org_id });
}

/**
 * Takes the organization's lock, and refuses (404) one that was archived meanwhile: what is
 * made in it would live on. Null is the platform, which never ends.
 */
export async function requireLiving(trx: Db, org_id: string | null): Promise<void> {
  if (org_id === null) return;
  const living = await maybe(
    trx,
    'select 1 from lock_organization(:org_id) as o where o.id is not null and o.archived_at is null',
    { org_id },
  );
  if (!living) throw noOrganization();
}
