import { AppError } from '../errors';
import { lockOrganization } from '../known';
import { type Db, many, maybe, one } from '../sql';
import {
  type Budget,
  type BudgetFields,
  type BudgetOwner,
  type BudgetWindow,
  columns,
  from,
} from './budget-lists';

/** One budget of an organization, or `not_found`. */
export function get(db: Db, org_id: string, id: string): Promise<Budget> {
  return one<Budget>(db, `${columns} ${from} and b.id = :id`, { org_id, id }, 'No budget');
}

/** The organization of a living budget; of any organization for a platform admin (null). */
export async function orgOf(db: Db, id: string, org_id: string | null): Promise<string> {
  const row = await one<{ org_id: string }>(
    db,
    `select b.org_id from budgets b
     where b.id = :id and b.archived_at is null and (:org_id::text is null or b.org_id = :org_id)`,
    { id, org_id },
    'No budget',
  );
  return row.org_id;
}

type NewBudget = BudgetFields & {
  org_id: string;
  owner_type: BudgetOwner;
  owner_id: string;
  created_by: string | null;
};

/**
 * Makes a budget, which counts its window from the beginning; a life begins now. 404 if the owner
 * is not of the organization, 409 `already_exists` if it has a budget with this window.
 */
export function create(db: Db, given: NewBudget): Promise<Budget> {
  return db.transaction(async (trx) => {
    await lockOrganization(trx, given.org_id);
    await requireOwner(trx, given);
    const id = await insert(trx, given, false);
    if (id === undefined)
      throw new AppError(
        'already_exists',
        `There is a budget of this ${given.owner_type} with the window ${given.window}. Change that one: PUT /v1/budgets/{id}.`,
        { param: 'window' },
      );
    return get(trx, given.org_id, id);
  });
}

/**
 * Changes the given fields. Another limit counts at once; another window begins with what was held
 * and spent in it so far, and holds that are open stay counted in the window before too.
 */
export function update(
  db: Db,
  org_id: string,
  id: string,
  fields: { [Field in keyof BudgetFields]?: BudgetFields[Field] | undefined },
): Promise<Budget> {
  return db.transaction(async (trx) => {
    await lockOrganization(trx, org_id);
    const old = await get(trx, org_id, id);
    if (old.is_max_budget) throw ofKey();
    await change(trx, old, fields);
    return get(trx, org_id, id);
  });
}

/** Takes a budget away; `not_found` if there is none. */
export async function archive(db: Db, org_id: string, id: string): Promise<void> {
  await db.transaction(async (trx) => {
    await lockOrganization(trx, org_id);
    if ((await get(trx, org_id, id)).is_max_budget) throw ofKey();
    await end(trx, id);
  });
}

/**
 * Sets what a key may cost. `window` null: in its life, which counts all that it has cost so far
 * (`max_budget` as keys always had it); `max_budget_nanos` null: no bound. Takes the organization's
 * lock and runs in the caller's transaction; the caller has checked who may.
 */
export async function setOfKey(
  trx: Db,
  { org_id, key_id }: { org_id: string; key_id: string },
  { max_budget_nanos, window }: { max_budget_nanos: bigint | null; window: BudgetWindow | null },
): Promise<void> {
  await lockOrganization(trx, org_id);
  const is_windowed = max_budget_nanos !== null && window !== null && window !== 'life';
  await many(
    trx,
    'update tokens set max_budget_nanos = :nanos where id = :key_id and org_id = :org_id',
    {
      org_id,
      key_id,
      nanos: is_windowed ? null : max_budget_nanos,
    },
  );
  const found = await maybe<{ id: string }>(
    trx,
    'select id from budgets where org_id = :org_id and owner_id = :key_id and is_max_budget and archived_at is null',
    { org_id, key_id },
  );
  if (!is_windowed) {
    if (found) await end(trx, found.id);
    return;
  }
  const fields = { limit_nanos: max_budget_nanos, window };
  if (found) await change(trx, await get(trx, org_id, found.id), fields);
  else {
    const owner = { org_id, owner_type: 'key', owner_id: key_id, created_by: null } as const;
    await insert(
      trx,
      { ...owner, ...fields, on_exceed: 'refuse', thresholds: [50, 80, 100] },
      true,
    );
  }
}

async function insert(
  trx: Db,
  given: NewBudget,
  is_max_budget: boolean,
): Promise<string | undefined> {
  const made = await maybe<{ id: string; now: Date }>(
    trx,
    `insert into budgets (org_id, owner_type, owner_id, limit_nanos, budget_window, on_exceed, thresholds, is_max_budget,
       starts_at, ends_at, created_by)
     select o.id, :owner_type, :owner_id, :limit_nanos, :window, :on_exceed, :thresholds::integer[], :is_max_budget,
       w.starts_at, w.ends_at, :created_by
     from organizations o cross join lateral reporting_window(:window, o.time_zone, clock_timestamp()) as w
     where o.id = :org_id
     on conflict do nothing returning id`,
    { ...given, thresholds: [...given.thresholds], is_max_budget },
  );
  if (made) await many(trx, 'select recount_budget(:id, clock_timestamp())', { id: made.id });
  return made?.id;
}

async function change(
  trx: Db,
  old: Budget,
  fields: { [Field in keyof BudgetFields]?: BudgetFields[Field] | undefined },
): Promise<void> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  const next: Budget = { ...old, ...Object.fromEntries(given) };
  await requireFree(trx, old, next);
  await many(
    trx,
    `select change_budget(:id, :limit_nanos, :window, :on_exceed, :thresholds::integer[], clock_timestamp())`,
    {
      id: old.id,
      limit_nanos: next.limit_nanos,
      window: next.window,
      on_exceed: next.on_exceed,
      thresholds: [...next.thresholds],
    },
  );
}

async function requireFree(trx: Db, old: Budget, next: Budget): Promise<void> {
  if (old.window === next.window || old.is_max_budget) return;
  const taken = await maybe(
    trx,
    `select 1 from budgets where org_id = :org_id and owner_id = :owner_id and budget_window = :window
       and not is_max_budget and archived_at is null and id <> :id`,
    { org_id: next.org_id, owner_id: next.owner_id, window: next.window, id: next.id },
  );
  if (taken)
    throw new AppError(
      'already_exists',
      `There is a budget of this ${next.owner_type} with the window ${next.window} already.`,
      { param: 'window' },
    );
}

async function end(trx: Db, id: string): Promise<void> {
  await many(trx, 'update budgets set archived_at = clock_timestamp() where id = :id', { id });
}

const owners: Record<BudgetOwner, string> = {
  key: `select 1 from tokens where org_id = :org_id and id = :owner_id and token_type = 'gateway' and revoked_at is null`,
  user: 'select 1 from memberships where org_id = :org_id and user_id = :owner_id and archived_at is null',
  team: 'select 1 from teams where org_id = :org_id and id = :owner_id and archived_at is null',
  organization: 'select 1 where :org_id::text = :owner_id::text',
};

async function requireOwner(
  trx: Db,
  { org_id, owner_type, owner_id }: Pick<NewBudget, 'org_id' | 'owner_type' | 'owner_id'>,
): Promise<void> {
  if (await maybe(trx, owners[owner_type], { org_id, owner_id })) return;
  throw new AppError(
    'not_found',
    `No ${owner_type} of this organization was found under owner_id.`,
    {
      param: 'owner_id',
    },
  );
}

function ofKey(): AppError {
  return new AppError(
    'invalid_field',
    "This budget is a key's max_budget. Change it with the key: max_budget and budget_window.",
    { param: 'id' },
  );
}
