import { AppError } from '../errors';
import { lockOrganization, requireLiving } from '../known';
import { toNanos } from '../money';
import { type Db, many, maybe, one } from '../sql';

/** Money caps count the organization's currency, `responses` caps count answers. */
type ConstraintType = 'cost' | 'responses';
type Interval = 'hour' | 'day' | 'week' | 'month';

/**
 * The six fields of the specification. `model_pattern` may end in `*`; `max_value` is in major
 * units or answers.
 */
export interface ConstraintFields {
  constraint_type: ConstraintType;
  provider: string;
  model_pattern: string;
  max_value: number;
  interval: Interval;
  enforcement_mode: 'reject' | 'warn';
}

interface Constraint extends ConstraintFields {
  id: string;
  agent_id: string;
  created_at: Date;
  updated_at: Date;
}

const columns = `c.id, c.agent_id, c.constraint_type, c.provider, c.model_pattern, c.max_value::float8 as max_value,
  c.interval, c.enforcement_mode, c.created_at, c.updated_at`;

// What is used and held of one in its window, in its own unit.
const used = `case a.constraint_type when 'cost' then a.cost_nanos / 1e9::numeric else a.responses end`;

/** An agent's constraints, oldest first. */
export function list(db: Db, agent_id: string): Promise<Constraint[]> {
  return many<Constraint>(
    db,
    `select ${columns} from usage_constraints c where c.agent_id = :agent_id and c.archived_at is null order by c.id`,
    { agent_id },
  );
}

/** A constraint, and how it stands in its present window. */
interface StandingConstraint extends Constraint {
  /** What is used and held of it, in its own unit. */
  current_value: number;
  resets_at: Date;
}

/** An agent's constraints as they stand now, oldest first. */
export function listStanding(db: Db, agent_id: string): Promise<StandingConstraint[]> {
  return many<StandingConstraint>(
    db,
    `select ${columns}, ${used}::float8 as current_value, a.resets_at
     from constraints_at(:agent_id, null, null, clock_timestamp()) as a
     join usage_constraints c on c.id = a.id order by c.id`,
    { agent_id },
  );
}

/** How many constraints an agent may have: each of its calls looks at them, under the lock. */
const CONSTRAINTS_MAX = 100;

/**
 * Caps an agent from now on; requests of the present window already count. 409 `already_exists` for
 * one more than an agent may have.
 */
export function create(
  db: Db,
  agent: { org_id: string; agent_id: string },
  fields: ConstraintFields,
): Promise<Constraint> {
  requireValue(fields);
  return db.transaction(async (trx) => {
    await requireLiving(trx, agent.org_id);
    const { total } = await one<{ total: number }>(
      trx,
      'select count(*)::int as total from usage_constraints where agent_id = :agent_id and archived_at is null',
      agent,
    );
    if (total >= CONSTRAINTS_MAX)
      throw new AppError(
        'already_exists',
        `An agent has at most ${CONSTRAINTS_MAX} usage constraints. Change or delete one of them.`,
      );
    const { id } = await one<{ id: string }>(
      trx,
      `insert into usage_constraints (org_id, agent_id, constraint_type, provider, model_pattern, max_value, interval,
         enforcement_mode, counted_from)
       values (:org_id, :agent_id, :constraint_type, :provider, :model_pattern, :max_value, :interval, :enforcement_mode, now())
       returning id`,
      { ...agent, ...fields },
    );
    return recounted(trx, id);
  });
}

/** Changes the given fields; the count of the present window is made anew. */
export function update(
  db: Db,
  { org_id, agent_id, id }: { org_id: string; agent_id: string; id: string },
  fields: { [Field in keyof ConstraintFields]?: ConstraintFields[Field] | undefined },
): Promise<Constraint> {
  return db.transaction(async (trx) => {
    await lockOrganization(trx, org_id);
    const [found] = (await list(trx, agent_id)).filter((constraint) => constraint.id === id);
    if (found === undefined) throw missing();
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    const next: Constraint = { ...found, ...Object.fromEntries(given) };
    requireValue(next);
    await many(
      trx,
      `update usage_constraints set constraint_type = :constraint_type, provider = :provider, model_pattern = :model_pattern,
         max_value = :max_value, interval = :interval, enforcement_mode = :enforcement_mode, updated_at = clock_timestamp()
       where id = :id`,
      { ...next },
    );
    return recounted(trx, id);
  });
}

/** Takes a cap away. */
export async function archive(
  db: Db,
  { org_id, agent_id, id }: { org_id: string; agent_id: string; id: string },
): Promise<void> {
  await db.transaction(async (trx) => {
    await lockOrganization(trx, org_id);
    const row = await maybe(
      trx,
      `update usage_constraints set archived_at = clock_timestamp()
       where id = :id and agent_id = :agent_id and archived_at is null returning id`,
      { id, agent_id },
    );
    if (row === undefined) throw missing();
  });
}

/**
 * How a constraint stands in the present window; `current_value` and `remaining` in its own unit.
 */
interface Standing {
  id: string;
  constraint_type: ConstraintType;
  interval: Interval;
  max_value: number;
  current_value: number;
  remaining: number;
  enforcement_mode: 'reject' | 'warn';
  exceeded: boolean;
  resets_at: Date;
}

interface Standings {
  /** False if a `reject` constraint has no room for one more request of the estimated cost. */
  allowed: boolean;
  constraints: Standing[];
}

/**
 * How an agent's constraints on a model stand for one more request. `estimated_cost_nanos` 0 asks
 * how they stand now.
 */
export async function check(
  db: Db,
  agent_id: string,
  {
    provider,
    model,
    estimated_cost_nanos = 0n,
  }: {
    provider: string;
    model: string;
    estimated_cost_nanos?: bigint | undefined;
  },
): Promise<Standings> {
  const constraints = await many<Standing>(
    db,
    `select a.id, a.constraint_type, a.interval, a.max_value::float8 as max_value, v.value::float8 as current_value,
       greatest(a.max_value - v.value, 0)::float8 as remaining, a.enforcement_mode, v.value + v.more > a.max_value as exceeded,
       a.resets_at
     from constraints_at(:agent_id, :provider, :model, clock_timestamp()) as a
     cross join lateral (select
       ${used} as value,
       case a.constraint_type when 'cost' then :estimated_cost_nanos::numeric / 1e9::numeric else 1 end as more) as v`,
    { agent_id, provider, model, estimated_cost_nanos },
  );
  const allowed = !constraints.some(
    ({ exceeded, enforcement_mode }) => exceeded && enforcement_mode === 'reject',
  );
  return { allowed, constraints };
}

/** Use that went past reserve. */
interface Increment {
  org_id: string;
  agent_id: string;
  provider: string;
  model: string;
  cost_nanos: bigint;
  responses: number;
  request_id: string;
}

/** Counts use once per request_id; one that a reserve knows is counted there already. */
export async function increment(db: Db, use: Increment): Promise<void> {
  await many(
    db,
    `select increment_usage(:org_id, :agent_id, :provider, :model, :cost_nanos, :responses, :request_id)`,
    { ...use },
  );
}

/** The organization of a living agent, or `not_found`. */
export async function orgOfAgent(db: Db, agent_id: string, org_id: string | null): Promise<string> {
  const agent = await one<{ org_id: string }>(
    db,
    `select a.org_id from agents a
     where a.id = :agent_id and a.archived_at is null and (:org_id::text is null or a.org_id = :org_id)`,
    { agent_id, org_id },
    'No agent',
  );
  return agent.org_id;
}

/** Money has at most 9 decimals; answers are whole. */
function requireValue({ constraint_type, max_value }: ConstraintFields): void {
  if (constraint_type === 'cost') toNanos(max_value, 'max_value');
  else if (!Number.isInteger(max_value))
    throw new AppError('invalid_field', 'max_value is a whole number of answers.', {
      param: 'max_value',
    });
}

async function recounted(trx: Db, id: string): Promise<Constraint> {
  await many(trx, 'select recount_constraint(:id)', { id });
  return one<Constraint>(trx, `select ${columns} from usage_constraints c where c.id = :id`, {
    id,
  });
}

function missing(): AppError {
  return new AppError('not_found', 'No usage constraint of this agent was found under this id.', {
    param: 'cid',
  });
}
