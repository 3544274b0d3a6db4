import type { Db } from '../../../domain/sql';
import { many } from '../../../domain/sql';
import { openDatabase } from '../../../runtime/database';
import { demo } from './visitor';

// What no test makes by the API one by one: rows by the thousand, as the database would have them.

async function inDatabase<T>(work: (db: Db) => Promise<T>): Promise<T> {
  const db = openDatabase(demo().database_url, 1, 'console tests');
  try {
    return await work(db);
  } finally {
    await db.destroy();
  }
}

/** A team of so many people, `Holder 1` and on, each with an empty wallet; and the team's own. */
export function makeWallets(
  org_id: string,
  { people }: { people: number },
): Promise<{ team_id: string; team: string }> {
  const team = `Crowd of ${people}`;
  return inDatabase(async (db) => {
    const [made] = await many<{ id: string }>(
      db,
      'insert into teams (org_id, name) values (:org_id, :team) returning id',
      { org_id, team },
    );
    const team_id = (made as { id: string }).id;
    await many(
      db,
      `with u as (insert into users (name) select 'Holder ' || n from generate_series(1, :people::int) as n returning id, name),
         m as (insert into memberships (org_id, user_id, role, name) select :org_id, id, 'member', name from u returning user_id),
         t as (insert into team_members (team_id, user_id) select :team_id, user_id from m returning user_id),
         w as (insert into wallets (org_id, owner_type, owner_user_id, currency) select :org_id, 'user', user_id, 'USD' from t returning id)
       select count(*) from w`,
      { org_id, team_id, people },
    );
    await many(db, `select id from ensure_wallet(:org_id, 'team', :team_id)`, { org_id, team_id });
    // What the database does by itself within a minute of so many new rows.
    await many(db, 'analyze users, memberships, team_members, wallets');
    return { team_id, team };
  });
}

/** As many open tickets again as `count` says, each of another body: copies of an open one. */
export function copyTickets(id: string, count: number): Promise<void> {
  return inDatabase(async (db) => {
    await many(
      db,
      `insert into cost_tickets select (jsonb_populate_record(null::cost_tickets, to_jsonb(t) || jsonb_build_object(
           'id', new_id('ticket'), 'request_body_hash', md5(n::text), 'created_at', t.created_at - n * interval '1 second'))).*
         from cost_tickets t, generate_series(1, :count::int) as n where t.id = :id`,
      { id, count },
    );
  });
}

/** Ends them: those of an organization that are open. */
export function expireTickets(org_id: string): Promise<void> {
  return inDatabase(async (db) => {
    await many(
      db,
      `update cost_tickets set status = 'expired', resolved_at = clock_timestamp() where org_id = :org_id and status = 'open'`,
      { org_id },
    );
  });
}

/** So many calls of an agent, as events. */
export function addCalls(org_id: string, agent_id: string, count: number): Promise<void> {
  return inDatabase(async (db) => {
    await many(
      db,
      `select append_event(:org_id, 'request.completed', jsonb_build_object('agent_id', :agent_id::text, 'n', n))
         from generate_series(1, :count::int) as n`,
      { org_id, agent_id, count },
    );
  });
}
