import { AppError, type ErrorDetails } from '../errors';
import { lockOrganization } from '../known';
import { type ListRequest, listOf, type Part } from '../lists';
import { named } from '../named';
import type { Page } from '../pages';
import { type Db, many, one } from '../sql';
import { revokeKeysFor } from './makers';

interface Organization {
  id: string;
  name: string;
  currency: string;
  created_at: Date;
  /** Its keys are refused since then; null: they are not. */
  suspended_at: Date | null;
  suspended_for: string | null;
  archived_at: Date | null;
}

/** A team or an agent. */
interface Named {
  id: string;
  name: string;
  created_at: Date;
  archived_at: Date | null;
}

const DUPLICATE = '23505';

const organizationColumns =
  'select o.id, o.name, o.currency, o.created_at, o.suspended_at, o.suspended_for, o.archived_at';

/** The organization, or `not_found`. */
export function get(db: Db, id: string): Promise<Organization> {
  return one<Organization>(
    db,
    `${organizationColumns} from organizations o where o.id = :id and o.archived_at is null`,
    { id },
    'No organization',
  );
}

/** Makes an organization with its wallet at 0. */
export function create(
  db: Db,
  { name, currency }: { name: string; currency: string },
): Promise<Organization> {
  return db.transaction(async (trx) => {
    const made = await one<Organization>(
      trx,
      'insert into organizations (name, currency) values (:name, :currency) returning id, name, currency, created_at, suspended_at, suspended_for, archived_at',
      { name, currency },
    );
    await trx.raw(`select ensure_wallet(?, 'organization', null)`, [made.id]);
    return made;
  });
}

interface OrganizationFilter {
  q?: string | undefined;
  status?: 'active' | 'suspended' | 'archived' | undefined;
}

/** All organizations, for the platform. */
export function list(
  db: Db,
  { q, status }: OrganizationFilter,
  request: ListRequest,
): Promise<Page<Organization> | Part<Organization>> {
  const conditions = [
    `from organizations o where o.archived_at is ${status === 'archived' ? 'not ' : ''}null`,
    ...(status === 'suspended' ? ['o.suspended_at is not null'] : []),
    ...(status === 'active' ? ['o.suspended_at is null'] : []),
  ];
  return listOf(
    db,
    {
      name: 'organizations',
      select: organizationColumns,
      from: conditions.join(' and '),
      bindings: { q: q ?? null, status: status ?? null },
      search: q
        ? {
            found: `select o.id from organizations o where search_words('', array[o.name], '{}') @@ search_for('', :q, '{}')`,
            plain: 'has_words(array[o.name], :q)',
            among: 'select o.id from organizations o where true',
          }
        : undefined,
      id: 'o.id',
      created_at: 'o.created_at',
      orders: { created_at: undefined, name: { by: 'lower(o.name)', type: 'text' } },
    },
    request,
  );
}

/** Gives an organization another name. It is locked. */
export async function rename(trx: Db, id: string, name: string): Promise<Organization> {
  await many(trx, 'update organizations set name = :name where id = :id', { id, name });
  return get(trx, id);
}

/**
 * Refuses an organization's keys and people from now on, or takes them again: `reason` null. Its
 * money stays as it is, and calls that are under way settle. A repeat changes nothing.
 */
export async function suspend(
  trx: Db,
  id: string,
  suspension: { reason: string | null } | null,
): Promise<Organization> {
  await get(trx, id);
  await lockOrganization(trx, id);
  await many(
    trx,
    `update organizations set suspended_at = case when :is_suspended then clock_timestamp() end, suspended_for = :reason
     where id = :id and (suspended_at is not null) <> :is_suspended`,
    { id, is_suspended: suspension !== null, reason: suspension?.reason ?? null },
  );
  return get(trx, id);
}

/** Ends an organization and its keys; 409 `organization_in_use` names what stands in the way. */
export async function archiveOrganization(trx: Db, id: string): Promise<void> {
  await get(trx, id);
  const sql = 'select archive_organization(:id) as open';
  const { open } = await one<{ open: string[] }>(trx, sql, { id });
  if (open.length === 0) return;
  throw new AppError(
    'organization_in_use',
    `This organization has ${open.join(', ')}. Settle or move them first; suspend it meanwhile.`,
    { param: 'id' },
  );
}

/** Takes back the end of an organization; its keys stay revoked. A repeat changes nothing. */
export async function unarchive(trx: Db, id: string): Promise<Organization> {
  await many(trx, 'select unarchive_organization(:id)', { id });
  return get(trx, id);
}

/** Which teams or agents. */
interface NamedFilter {
  org_id: string;
  q?: string | undefined;
  status?: 'active' | 'archived' | undefined;
}

type NamedList = Promise<Page<Named> | Part<Named>>;

export function listTeams(db: Db, filter: NamedFilter, request: ListRequest): NamedList {
  return listNamed(db, 'teams', filter, request);
}

/** One team, also an archived one. */
export function getTeam(db: Db, org_id: string, id: string): Promise<Named> {
  return getNamed(db, 'teams', { org_id, id });
}

/** Gives a living team another name. The organization is locked. */
export function renameTeam(trx: Db, row: Row, name: string): Promise<Named> {
  return renameNamed(trx, 'teams', row, name);
}

export function createTeam(db: Db, org_id: string, name: string): Promise<Named> {
  return createNamed(db, 'teams', { org_id, name });
}

/**
 * Archives a team and revokes its keys in the same transaction. Its wallet stays: it takes credits
 * and can be reclaimed.
 */
export function archiveTeam(db: Db, org_id: string, id: string): Promise<void> {
  return archive(db, 'teams', { org_id, id });
}

export function listAgents(db: Db, filter: NamedFilter, request: ListRequest): NamedList {
  return listNamed(db, 'agents', filter, request);
}

/** One agent, also an archived one. */
export function getAgent(db: Db, org_id: string, id: string): Promise<Named> {
  return getNamed(db, 'agents', { org_id, id });
}

/** Gives a living agent another name. The organization is locked. */
export function renameAgent(trx: Db, row: Row, name: string): Promise<Named> {
  return renameNamed(trx, 'agents', row, name);
}

export function createAgent(db: Db, org_id: string, name: string): Promise<Named> {
  return createNamed(db, 'agents', { org_id, name });
}

/** Archives an agent and revokes its keys in the same transaction. */
export function archiveAgent(db: Db, org_id: string, id: string): Promise<void> {
  return archive(db, 'agents', { org_id, id });
}

type Table = 'teams' | 'agents';

/** A row of an organization. */
interface Row {
  org_id: string;
  id: string;
}

const namedColumns = 'select n.id, n.name, n.created_at, n.archived_at';
const missing: Record<Table, string> = { teams: 'No team', agents: 'No agent' };

function listNamed(
  db: Db,
  table: Table,
  { org_id, q, status = 'active' }: NamedFilter,
  request: ListRequest,
): NamedList {
  const from = `from ${table} n where n.org_id = :org_id and n.archived_at is ${status === 'archived' ? 'not ' : ''}null`;
  return listOf(
    db,
    {
      name: table,
      select: namedColumns,
      from,
      bindings: { org_id, q: q ?? null, status },
      search: q
        ? {
            found: named[table],
            plain: 'has_words(array[n.name], :q)',
            among: `select n.id from ${table} n where n.org_id = :org_id`,
          }
        : undefined,
      id: 'n.id',
      created_at: 'n.created_at',
      orders: { created_at: undefined, name: { by: 'lower(n.name)', type: 'text' } },
    },
    request,
  );
}

function getNamed(db: Db, table: Table, row: Row): Promise<Named> {
  return one(
    db,
    `${namedColumns} from ${table} n where n.id = :id and n.org_id = :org_id`,
    { ...row },
    missing[table],
  );
}

function renameNamed(trx: Db, table: Table, row: Row, name: string): Promise<Named> {
  return unique(isTaken(table, name), () =>
    one(
      trx,
      `update ${table} n set name = :name where n.id = :id and n.org_id = :org_id and n.archived_at is null
       returning n.id, n.name, n.created_at, n.archived_at`,
      { ...row, name },
      missing[table],
    ),
  );
}

function isTaken(table: Table, name: string): string {
  return `One of the ${table} is named ${name} already.`;
}

function createNamed(db: Db, table: Table, row: { org_id: string; name: string }): Promise<Named> {
  return unique(isTaken(table, row.name), () =>
    one(
      db,
      `insert into ${table} (org_id, name) values (:org_id, :name) returning id, name, created_at, archived_at`,
      row,
    ),
  );
}

function archive(db: Db, table: Table, row: Row): Promise<void> {
  return db.transaction(async (trx) => {
    await one(
      trx,
      `update ${table} set archived_at = clock_timestamp() where id = :id and org_id = :org_id and archived_at is null returning id`,
      { ...row },
      missing[table],
    );
    await revokeKeysFor(trx, table === 'teams' ? 'team_id' : 'agent_id', row);
  });
}

/** Runs an insert; a broken unique rule becomes 409 `already_exists` with the given message. */
export async function unique<T>(
  message: string,
  run: () => Promise<T>,
  details: ErrorDetails = {},
): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if ((error as { code?: string }).code === DUPLICATE)
      throw new AppError('already_exists', message, details);
    throw error;
  }
}
