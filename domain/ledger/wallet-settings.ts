import { AppError } from '../errors';
import { lockOrganization } from '../known';
import { type Db, many, maybe, one } from '../sql';
import { requireZone } from '../time-zones';

/** Wallet settings of an organization. */
interface WalletSettings {
  currency: string;
  reserve_buffer_pct: number;
  low_balance_threshold_nanos: bigint;
  reservation_ttl_seconds: number;
  ticket_ttl_seconds: number;
  default_max_completion_tokens: number;
  manual_credit: 'allowed' | 'platform_only';
  wallet_user_topup_enabled: boolean;
  /**
   * An IANA name such as Pacific/Auckland: windows of budgets, spend and exports begin by its
   * calendar. A change counts from the next window.
   */
  time_zone: string;
  /** The least price factor of its own provider keys; keys that are there keep theirs. */
  own_key_factor_min: number;
  /** What it pays of each amount of the price list; a hold keeps the one that it was made with. */
  price_factor: number;
}

type SettingsChange = { [Name in keyof WalletSettings]?: WalletSettings[Name] | undefined };

const settingColumns = `currency, reserve_buffer_pct::float as reserve_buffer_pct, low_balance_threshold_nanos, reservation_ttl_seconds,
  ticket_ttl_seconds, default_max_completion_tokens, manual_credit, wallet_user_topup_enabled, time_zone, own_key_factor_min::float8 as own_key_factor_min,
  price_factor::float8 as price_factor`;

export function get(db: Db, org_id: string): Promise<WalletSettings> {
  return one(
    db,
    `select ${settingColumns} from organizations where id = :org_id and archived_at is null`,
    { org_id },
    'No organization',
  );
}

/**
 * Changes the given settings. The currency changes only while no amount is in it: no ledger entry,
 * ticket, payment session, cost constraint, budget or rule, no limit of members' keys, no rule of
 * top-ups and no threshold, but for one that is given beside it.
 */
export function change(db: Db, org_id: string, given: SettingsChange): Promise<WalletSettings> {
  return db.transaction(async (trx) => {
    if (given.time_zone !== undefined) await requireZone(trx, given.time_zone);
    await lockOrganization(trx, org_id);
    const old = await get(trx, org_id);
    if (given.currency !== undefined && given.currency !== old.currency)
      await changeCurrency(trx, org_id, given);
    const columns = Object.entries(given).filter(([, value]) => value !== undefined);
    if (columns.length > 0)
      await trx('organizations').where({ id: org_id }).update(Object.fromEntries(columns));
    return get(trx, org_id);
  });
}

/** Refuses (422) a currency that is not the organization's; none named is that. */
export async function requireCurrency(
  db: Db,
  org_id: string,
  named: string | undefined,
): Promise<void> {
  if (named === undefined) return;
  const { currency } = await get(db, org_id);
  if (named === currency) return;
  throw new AppError(
    'invalid_field',
    `The organization's currency is ${currency}. Leave currency out, or name that one.`,
    { param: 'currency' },
  );
}

async function changeCurrency(
  trx: Db,
  id: string,
  { currency, low_balance_threshold_nanos }: SettingsChange,
): Promise<void> {
  const used = await maybe(
    trx,
    `select 1 where exists (select 1 from wallet_transactions t join wallets w on w.id = t.wallet_id where w.org_id = :id)
       or exists (select 1 from cost_tickets c where c.org_id = :id)
       or exists (select 1 from usage_constraints u where u.org_id = :id and u.archived_at is null and u.constraint_type = 'cost')
       or exists (select 1 from payment_sessions p where p.org_id = :id)
       or exists (select 1 from tokens k where k.org_id = :id and k.max_budget_nanos is not null)
       or exists (select 1 from budgets b where b.org_id = :id and b.archived_at is null)
       or exists (select 1 from approval_rules x where x.org_id = :id and x.archived_at is null)
       or exists (select 1 from member_key_settings m where m.org_id = :id and m.max_budget_nanos is not null)
       or exists (select 1 from payment_settings y where y.org_id = :id)
       or exists (select 1 from wallets w where w.org_id = :id and w.low_balance_threshold_nanos is not null)
       or exists (select 1 from organizations o where o.id = :id and o.low_balance_threshold_nanos <> 0 and not :is_new)`,
    { id, is_new: low_balance_threshold_nanos !== undefined },
  );
  if (used) {
    throw new AppError(
      'currency_in_use',
      "The currency is fixed once the organization has ledger entries, tickets, payment sessions, cost constraints, budgets, approval rules, a limit of members' keys, settings of top-ups or thresholds of low balances. Make an organization with the other currency: POST /v1/admin/organizations.",
      { param: 'currency' },
    );
  }
  await many(trx, 'update wallets set currency = :currency where org_id = :id', { id, currency });
}
