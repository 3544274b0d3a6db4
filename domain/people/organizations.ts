import { AppError } from '../errors';
import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import { type Db, one } from '../sql';
import { revokeKeysFor } from './makers';

interface Organization {
  id: string;
  name: string;
  currency: string;
  created_at: Date;
}

interface Named {
  id: string;
  name: string;
  created_at: Date;
}

const DUPLICATE = '23505';

/** The organization, or `not_found`. */
export function get(db: Db, id: string): Promise<Organization> {
  return one<Organization>(
    db,
    'select id, name, currency, created_at from organizations where id = :id and archived_at is null',
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
      'insert into organizations (name, currency) values (:name, :currency) returning id, name, currency, created_at',
      { name, currency },
    );
    await trx.raw(`select ensure_wallet(?, 'organization', null)`, [made.id]);
    return made;
  });
}

export function list(db: Db, window: PageRequest): Promise<Page<Organization>> {
  return pageOf(
    db,
    `select id, name, currency, created_at from organizations
     where archived_at is null and ${isMadeBefore('created_at')} order by id desc`,
    {},
    window,
  );
}

export function listTeams(db: Db, org_id: string, window: PageRequest): Promise<Page<Named>> {
  return listNamed(db, 'teams', org_id, window);
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

export function listAgents(db: Db, org_id: string, window: PageRequest): Promise<Page<Named>> {
  return listNamed(db, 'agents', org_id, window);
}

export function createAgent(db: Db, org_id: string, name: string): Promise<Named> {
  return createNamed(db, 'agents', { org_id, name });
}

/** Archives an agent and revokes its keys in the same transaction. */
export function archiveAgent(db: Db, org_id: string, id: string): Promise<void> {
  return archive(db, 'agents', { org_id, id });
}

function listNamed(
  db: Db,
  table: 'teams' | 'agents',
  org_id: string,
  window: PageRequest,
): Promise<Page<Named>> {
  return pageOf(
    db,
    `select id, name, created_at from ${table}
     where org_id = :org_id and archived_at is null and ${isMadeBefore('created_at')} order by id desc`,
    { org_id },
    window,
  );
}

function createNamed(
  db: Db,
  table: 'teams' | 'agents',
  row: { org_id: string; name: string },
): Promise<Named> {
  return unique(`One of the ${table} is named ${row.name} already.`, () =>
    one(
      db,
      `insert into ${table} (org_id, name) values (:org_id, :name) returning id, name, created_at`,
      row,
    ),
  );
}

function archive(
  db: Db,
  table: 'teams' | 'agents',
  row: { org_id: string; id: string },
): Promise<void> {
  return db.transaction(async (trx) => {
    await one(
      trx,
      `update ${table} set archived_at = clock_timestamp() where id = :id and org_id = :org_id and archived_at is null returning id`,
      row,
      table === 'teams' ? 'No team' : 'No agent',
    );
    await revokeKeysFor(trx, table === 'teams' ? 'team_id' : 'agent_id', row);
  });
}

/** Runs an insert; a broken unique rule becomes 409 `already_exists` with the given message. */
export async function unique<T>(message: string, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if ((error as { code?: string }).code === DUPLICATE)
      throw new AppError('already_exists', message);
    throw error;
  }
}
