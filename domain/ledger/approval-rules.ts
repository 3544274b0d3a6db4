import { AppError } from '../errors';
import { lockOrganization } from '../known';
import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import { type Db, many, maybe, one } from '../sql';

/** What people set of a rule. Amounts are nanos of the organization's currency. */
export interface RuleFields {
  name: string;
  /** Null: tickets of every team, and of none. */
  team_id: string | null;
  max_per_call_nanos: bigint;
  /** The sum of the holds that it approves in a day of the organization's time zone. */
  max_per_day_nanos: bigint;
  /** Whose wallet pays what is missing. */
  source: 'team' | 'organization';
}

/** A rule with what it has approved today. */
interface Rule extends RuleFields {
  id: string;
  org_id: string;
  approved_today_nanos: bigint;
  approvals_today: number;
  day_ends_at: Date;
  currency: string;
  created_by: string | null;
  created_at: Date;
  updated_at: Date;
}

const columns = `
  select x.id, x.org_id, x.name, x.team_id, x.max_per_call_nanos, x.max_per_day_nanos, x.source,
    case when d.is_over then 0::bigint else x.approved_nanos end as approved_today_nanos,
    case when d.is_over then 0 else x.approvals end as approvals_today,
    case when d.is_over then (reporting_window('day', o.time_zone, clock_timestamp())).ends_at else x.day_ends_at end as day_ends_at,
    o.currency, x.created_by, x.created_at, x.updated_at`;

const living = `
  from approval_rules x join organizations o on o.id = x.org_id
  cross join lateral (select x.day_ends_at <= clock_timestamp() as is_over) as d
  where x.org_id = :org_id and x.archived_at is null`;

/** An organization's rules, newest first. */
export function list(db: Db, org_id: string, window: PageRequest): Promise<Page<Rule>> {
  return pageOf<Rule>(
    db,
    {
      select: columns,
      all: `${living} and ${isMadeBefore('x.created_at')}`,
      ordered: 'order by x.created_at desc, x.id desc',
    },
    { org_id },
    window,
  );
}

/** One rule of an organization, or `not_found`. */
export function get(db: Db, org_id: string, id: string): Promise<Rule> {
  return one<Rule>(db, `${columns} ${living} and x.id = :id`, { org_id, id }, 'No approval rule');
}

/** The organization of a living rule; of any organization for a platform admin (null). */
export async function orgOf(db: Db, id: string, org_id: string | null): Promise<string> {
  const row = await one<{ org_id: string }>(
    db,
    `select x.org_id from approval_rules x
     where x.id = :id and x.archived_at is null and (:org_id::text is null or x.org_id = :org_id)`,
    { id, org_id },
    'No approval rule',
  );
  return row.org_id;
}

/** How many rules an organization may have: each refused call looks at them. */
const RULES_MAX = 50;

/**
 * Makes a rule, which approves what is asked from now on. 404 if the team is not the
 * organization's.
 */
export function create(
  db: Db,
  given: RuleFields & { org_id: string; created_by: string | null },
): Promise<Rule> {
  return db.transaction(async (trx) => {
    await lockOrganization(trx, given.org_id);
    requireFields(given);
    await requireTeam(trx, given);
    const { total } = await one<{ total: number }>(
      trx,
      'select count(*)::int as total from approval_rules where org_id = :org_id and archived_at is null',
      { org_id: given.org_id },
    );
    if (total >= RULES_MAX)
      throw new AppError(
        'already_exists',
        `An organization has at most ${RULES_MAX} approval rules. Change or delete one of them.`,
      );
    const { id } = await one<{ id: string }>(
      trx,
      `insert into approval_rules (org_id, name, team_id, max_per_call_nanos, max_per_day_nanos, source, created_by)
       values (:org_id, :name, :team_id, :max_per_call_nanos, :max_per_day_nanos, :source, :created_by) returning id`,
      { ...given },
    );
    return get(trx, given.org_id, id);
  });
}

/** Changes the given fields; what it has approved today stays counted. */
export function update(
  db: Db,
  org_id: string,
  id: string,
  fields: { [Field in keyof RuleFields]?: RuleFields[Field] | undefined },
): Promise<Rule> {
  return db.transaction(async (trx) => {
    await lockOrganization(trx, org_id);
    const old = await get(trx, org_id, id);
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    const next: Rule = { ...old, ...Object.fromEntries(given) };
    requireFields(next);
    // What is not given is not judged: the team of a rule may have been archived meanwhile.
    if (fields.team_id !== undefined) await requireTeam(trx, next);
    await many(
      trx,
      `update approval_rules set name = :name, team_id = :team_id, max_per_call_nanos = :max_per_call_nanos,
         max_per_day_nanos = :max_per_day_nanos, source = :source, updated_at = clock_timestamp()
       where id = :id`,
      {
        id,
        name: next.name,
        team_id: next.team_id,
        max_per_call_nanos: next.max_per_call_nanos,
        max_per_day_nanos: next.max_per_day_nanos,
        source: next.source,
      },
    );
    return get(trx, org_id, id);
  });
}

/** Takes a rule away; what it approved stays approved. */
export async function archive(db: Db, org_id: string, id: string): Promise<void> {
  await db.transaction(async (trx) => {
    await lockOrganization(trx, org_id);
    await get(trx, org_id, id);
    await many(trx, 'update approval_rules set archived_at = clock_timestamp() where id = :id', {
      id,
    });
  });
}

function requireFields(rule: RuleFields): void {
  const { team_id, source, max_per_call_nanos, max_per_day_nanos } = rule;
  const wrong = (message: string, param: string) =>
    new AppError('invalid_field', message, { param });
  if (source === 'team' && team_id === null)
    throw wrong("source team pays from a team's wallet: name the team_id.", 'source');
  if (max_per_day_nanos < max_per_call_nanos)
    throw wrong('max_per_day must be at least max_per_call.', 'max_per_day');
}

/** Refuses (404) a team that is not one of the organization's living ones. */
async function requireTeam(
  trx: Db,
  { org_id, team_id }: Pick<Rule, 'org_id' | 'team_id'>,
): Promise<void> {
  if (team_id === null) return;
  const found = await maybe(
    trx,
    'select 1 from teams where org_id = :org_id and id = :team_id and archived_at is null',
    { org_id, team_id },
  );
  if (!found)
    throw new AppError('not_found', 'No team of this organization was found under team_id.', {
      param: 'team_id',
    });
}
