import { AppError } from '../errors';
import { requireLiving } from '../known';
import { decimalText } from '../money';
import { type Db, maybe, one } from '../sql';
import { activeProvider } from './config';
import { minimumNanos, type ProviderName, stepNanos } from './currencies';

type TargetScope = 'user' | 'team' | 'organization';

/** Top-up rules of an organization. */
interface OrgSettings {
  allowed_topup_amounts_nanos: bigint[];
  min_topup_amount_nanos: bigint;
  max_topup_amount_nanos: bigint;
  topup_target_scopes: TargetScope[];
  /** The origins to which a buyer may be sent back, exactly as they are. */
  return_origins: string[];
}

type OrgSettingsChange = { [Name in keyof OrgSettings]?: OrgSettings[Name] | undefined };

const defaults: OrgSettings = {
  allowed_topup_amounts_nanos: [10n, 25n, 50n, 100n].map((units) => units * 1_000_000_000n),
  min_topup_amount_nanos: 5_000_000_000n,
  max_topup_amount_nanos: 1_000_000_000_000n,
  topup_target_scopes: ['user', 'team', 'organization'],
  return_origins: [],
};

export async function getOrgSettings(db: Db, org_id: string): Promise<OrgSettings> {
  const row = await maybe<OrgSettings & { allowed_topup_amounts_nanos: (string | bigint)[] }>(
    db,
    `select allowed_topup_amounts_nanos, min_topup_amount_nanos, max_topup_amount_nanos, topup_target_scopes, return_origins
     from payment_settings where org_id = :org_id`,
    { org_id },
  );
  if (row === undefined) return defaults;
  // An array of int8 arrives as text.
  return { ...row, allowed_topup_amounts_nanos: row.allowed_topup_amounts_nanos.map(BigInt) };
}

/**
 * The settings as the active provider lets them be paid: without the amounts below the least that
 * it takes, which is the least here too.
 */
export function payable<Rules extends Pick<OrgSettings, Amounts>>(
  rules: Rules,
  provider: ProviderName,
  currency: string,
): Rules {
  const least = minimumNanos(provider, currency);
  const { allowed_topup_amounts_nanos: amounts, min_topup_amount_nanos } = rules;
  return {
    ...rules,
    allowed_topup_amounts_nanos: amounts.filter((nanos) => nanos >= least),
    ...(min_topup_amount_nanos < least && { min_topup_amount_nanos: least }),
  };
}

type Amounts = 'allowed_topup_amounts_nanos' | 'min_topup_amount_nanos';

/** Changes the given settings. Throws `invalid_field` if the whole would contradict itself. */
export function putOrgSettings(
  db: Db,
  org_id: string,
  given: OrgSettingsChange,
): Promise<OrgSettings> {
  return db.transaction(async (trx) => {
    await requireLiving(trx, org_id);
    const change = Object.fromEntries(
      Object.entries(given).filter(([, value]) => value !== undefined),
    );
    const settings: OrgSettings = { ...(await getOrgSettings(trx, org_id)), ...change };
    requireSense(settings, given);
    await requirePayable(trx, org_id, given);
    await trx('payment_settings')
      .insert({ org_id, ...settings, updated_at: trx.fn.now() })
      .onConflict('org_id')
      .merge();
    return settings;
  });
}

/** Names the field that was given, not the one it contradicts. */
function requireSense(settings: OrgSettings, given: OrgSettingsChange): void {
  const { min_topup_amount_nanos: min, max_topup_amount_nanos: max } = settings;
  if (min > max) {
    const isMin = given.min_topup_amount_nanos !== undefined;
    throw contradiction(
      isMin ? 'min_topup_amount' : 'max_topup_amount',
      `min_topup_amount ${decimalText(min)} is above max_topup_amount ${decimalText(max)}.`,
    );
  }
  const outside = settings.allowed_topup_amounts_nanos.find(
    (amount) => amount < min || amount > max,
  );
  if (outside === undefined) return;
  const isLow = outside < min;
  const [limit, name] = isLow ? [min, 'min_topup_amount'] : [max, 'max_topup_amount'];
  throw contradiction(
    given.allowed_topup_amounts_nanos === undefined ? name : 'allowed_topup_amounts',
    `${decimalText(outside)} of allowed_topup_amounts is ${isLow ? 'below' : 'above'} ${name} ${decimalText(limit)}.`,
  );
}

/**
 * A top-up is a whole number of the provider's minor units and no less than it takes, so each
 * amount that is offered is one. A least amount below the provider's own says nothing and is taken.
 */
async function requirePayable(db: Db, org_id: string, given: OrgSettingsChange): Promise<void> {
  const { currency } = await one<{ currency: string }>(
    db,
    'select currency from organizations where id = :org_id',
    { org_id },
  );
  const provider = await activeProvider(db);
  const step = stepNanos(provider, currency);
  const amounts: [string, bigint | undefined][] = [
    ...(given.allowed_topup_amounts_nanos ?? []).map((nanos): [string, bigint] => [
      'allowed_topup_amounts',
      nanos,
    ]),
    ['min_topup_amount', given.min_topup_amount_nanos],
    ['max_topup_amount', given.max_topup_amount_nanos],
  ];
  const least = provider === undefined ? 0n : minimumNanos(provider, currency);
  for (const [param, nanos] of amounts) {
    if (nanos === undefined) continue;
    if (nanos % step !== 0n)
      throw contradiction(
        param,
        `${decimalText(nanos)} of ${param} is not a whole number of ${decimalText(step)} ${currency}, the smallest step that can be paid.`,
      );
    if (nanos < least && param !== 'min_topup_amount')
      throw contradiction(
        param,
        `${decimalText(nanos)} of ${param} is below ${decimalText(least)} ${currency}, the least that ${provider} takes.`,
      );
  }
}

function contradiction(param: string, message: string): AppError {
  return new AppError('invalid_field', message, { param });
}
