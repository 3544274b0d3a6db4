import { AppError } from '../errors';
import { lockOrganization } from '../known';
import { type Db, many, maybe, one } from '../sql';
import * as transactions from './transactions';

export type OwnerType = 'organization' | 'team' | 'user';

export interface Wallet {
  wallet_id: string;
  owner_type: OwnerType;
  owner_org_id: string;
  owner_team_id: string | null;
  owner_user_id: string | null;
  owner_name: string;
  balance_nanos: bigint;
  reserved_nanos: bigint;
  low_balance_threshold_nanos: bigint | null;
  currency: string;
}

/** Whose wallet an action is about; `owner_id` is needed for a team or user. */
export interface Owner {
  owner_type: OwnerType;
  owner_id?: string | undefined;
}

/** A wallet's columns, of `walletTable`. */
export const walletColumns = `
  select w.id as wallet_id, w.owner_type, w.org_id as owner_org_id, w.owner_team_id, w.owner_user_id,
    coalesce(t.name, u.name, o.name) as owner_name, w.balance_nanos, w.reserved_nanos, w.low_balance_threshold_nanos, w.currency`;

/** Wallets with their owners. */
export const walletTable = `
  from wallets w
  join organizations o on o.id = w.org_id
  left join teams t on t.id = w.owner_team_id
  left join users u on u.id = w.owner_user_id`;

const walletRows = `${walletColumns} ${walletTable}`;

/**
 * The condition of the wallets that a caller may see. Members see their own, their teams' and the
 * organization's, which are found by their owners; who may bill sees all of the organization's.
 */
export function visibleTo({ sees_all }: Pick<Viewer, 'sees_all'>): string {
  if (sees_all) return 'w.org_id = :org_id';
  return `w.org_id = :org_id and w.id in (
    select v.id from wallets v where v.org_id = :org_id and v.owner_type = 'organization'
    union all select v.id from wallets v where v.org_id = :org_id and v.owner_type = 'user' and v.owner_user_id = :user_id
    union all select v.id from team_members tm
      join wallets v on v.org_id = :org_id and v.owner_type = 'team' and v.owner_team_id = tm.team_id
      where tm.user_id = :user_id)`;
}

export interface Viewer {
  org_id: string;
  user_id: string | null;
  sees_all: boolean;
}

/** One wallet that a person may see, or `not_found`. */
export function get(db: Db, id: string, viewer: Viewer): Promise<Wallet> {
  return one<Wallet>(
    db,
    `${walletRows} where w.id = :id and ${visibleTo(viewer)}`,
    { id, ...viewer },
    'No wallet',
  );
}

/** Any wallet, for platform admins and for answers about money just moved. */
export function getAny(db: Db, id: string): Promise<Wallet> {
  return one<Wallet>(db, `${walletRows} where w.id = :id`, { id }, 'No wallet');
}

const isThere = `case :owner_type when 'organization' then true
  when 'team' then exists (select 1 from teams t where t.id = :owner_id and t.org_id = :org_id and t.archived_at is null)
  else exists (select 1 from memberships m where m.org_id = :org_id and m.user_id = :owner_id and m.archived_at is null) end`;

/**
 * The wallet that money is to be put into, made on first use with balance 0; `not_found` for an
 * owner of elsewhere, an archived team and a person who has left: nobody could spend it.
 */
export function ensure(
  db: Db,
  org_id: string,
  owner: Owner,
  param = 'target_wallet_owner_id',
): Promise<Wallet> {
  return ensureWhere(db, org_id, owner, { param, condition: isThere });
}

async function ensureWhere(
  db: Db,
  org_id: string,
  { owner_type, owner_id }: Owner,
  { param, condition }: { param: string; condition: string },
): Promise<Wallet> {
  if (owner_type !== 'organization' && owner_id === undefined) {
    throw new AppError('invalid_field', `Name the ${owner_type}: ${param}.`, { param });
  }
  const isForeign = owner_type === 'organization' && (owner_id ?? org_id) !== org_id;
  const made = isForeign
    ? undefined
    : await maybe<{ id: string | null }>(
        db,
        `select id from ensure_wallet(:org_id, :owner_type, :owner_id) where ${condition}`,
        { org_id, owner_type, owner_id: owner_id ?? null },
      );
  if (!made?.id) {
    throw new AppError(
      'not_found',
      `No ${owner_type} of this organization was found under this id.`,
      { param },
    );
  }
  return get(db, made.id, { org_id, user_id: null, sees_all: true });
}

/**
 * The wallet of exactly one of a team and a user, as allocate and reclaim name them. Money may be
 * taken back from an owner who is gone: `isTaking`.
 */
export function ensureNamed(
  db: Db,
  org_id: string,
  named: { team_id?: string | undefined; user_id?: string | undefined },
  { isTaking }: { isTaking: boolean },
): Promise<Wallet> {
  const { team_id, user_id } = named;
  if ((team_id === undefined) === (user_id === undefined)) {
    throw new AppError('invalid_field', 'Name either team_id or user_id.', { param: 'team_id' });
  }
  const owner: Owner =
    team_id === undefined
      ? { owner_type: 'user', owner_id: user_id }
      : { owner_type: 'team', owner_id: team_id };
  const param = team_id === undefined ? 'user_id' : 'team_id';
  return ensureWhere(db, org_id, owner, { param, condition: isTaking ? 'true' : isThere });
}

/** Sets the balance below which this wallet is low; null: the organization's setting decides. */
export function setThreshold(
  db: Db,
  { wallet_id, owner_org_id }: Wallet,
  low_balance_threshold_nanos: bigint | null,
): Promise<Wallet> {
  return db.transaction(async (trx) => {
    await lockOrganization(trx, owner_org_id);
    await many(
      trx,
      'update wallets set low_balance_threshold_nanos = :low_balance_threshold_nanos where id = :wallet_id',
      { wallet_id, low_balance_threshold_nanos },
    );
    return getAny(trx, wallet_id);
  });
}

interface Amount {
  org_id: string;
  amount_nanos: bigint;
  description?: string | undefined;
}

/** Adds money to a wallet: one `credit` entry. Throws `amount_too_large` above a wallet's bound. */
export async function credit(
  db: Db,
  wallet_id: string,
  { org_id, amount_nanos, description }: Amount,
): Promise<transactions.Transaction> {
  try {
    return await one<transactions.Transaction>(
      db,
      `select ${transactions.columns} from credit(:org_id, :wallet_id, :amount_nanos, :description)`,
      {
        org_id,
        wallet_id,
        amount_nanos,
        description: description ?? null,
      },
    );
  } catch (error) {
    throw boundError(error);
  }
}

/**
 * Moves money between two wallets of one organization: two entries that sum to zero. 409 if the
 * giver is short.
 */
export async function transfer(
  db: Db,
  move: Amount & { from: string; to: string },
): Promise<transactions.Transaction[]> {
  const { org_id, from, to, amount_nanos, description } = move;
  if (from === to) {
    throw new AppError(
      'manual_credit_not_allowed',
      'Money cannot be moved from a wallet to itself; ask a platform admin for a credit.',
    );
  }
  try {
    const entries = await many<transactions.Transaction>(
      db,
      `select ${transactions.columns} from transfer(:org_id, :from, :to, :amount_nanos, :note)`,
      {
        org_id,
        from,
        to,
        amount_nanos,
        note: description ?? null,
      },
    );
    if (entries.length === 2) return entries;
  } catch (error) {
    throw boundError(error);
  }
  throw new AppError(
    'insufficient_balance',
    'The giving wallet has less than this amount. Move less, or top it up first.',
    {
      status: 409,
      param: 'amount',
    },
  );
}

const OUT_OF_RANGE = '22003';

function boundError(error: unknown): unknown {
  const { code, constraint } = error as { code?: string; constraint?: string };
  if (constraint !== 'wallets_bound' && code !== OUT_OF_RANGE) return error;
  return new AppError(
    'amount_too_large',
    'A wallet holds at most 9,000,000,000 units of its currency.',
    {
      param: 'amount',
    },
  );
}
