import { AppError } from '../errors';
import { type Db, maybe, one } from '../sql';
import { findOwn, type NewToken, type Token } from './tokens';

// The gateway keys that members make for themselves, within what their organization allows.

export interface MemberKeySettings {
  /** False until an organization says otherwise. */
  enabled: boolean;
  /** So many living keys of their own making may a person have. */
  max_keys: number;
  /** The most that a key may spend; null: it needs no budget. */
  max_budget_nanos: bigint | null;
  /** The calendar window that this is for; null: the life of the key. */
  budget_window: Token['budget_window'];
  /** The models that such keys may call; null: every one. */
  allowed_models: string[] | null;
  /** A key ends within so many days; null: it may live on. */
  max_days: number | null;
}

const off: MemberKeySettings = {
  enabled: false,
  max_keys: 5,
  max_budget_nanos: null,
  budget_window: null,
  allowed_models: null,
  max_days: null,
};

const columns = 'enabled, max_keys, max_budget_nanos, budget_window, allowed_models, max_days';

/** What an organization allows its members; off until it says something. */
export async function settings(db: Db, org_id: string): Promise<MemberKeySettings> {
  const row = await maybe<MemberKeySettings>(
    db,
    `select ${columns} from member_key_settings where org_id = :org_id`,
    { org_id },
  );
  return row ?? off;
}

/**
 * What the organization allows, and a key that the person made, which they may change. Throws 403
 * if members may make none, and for a key that somebody else made for them; 404 for any other.
 */
export async function ownMade(
  db: Db,
  person: { org_id: string; user_id: string },
  name: string,
): Promise<{ allowed: MemberKeySettings; token: Token }> {
  const allowed = await settings(db, person.org_id);
  requireEnabled(allowed);
  const token = await findOwn(db, person, name);
  if (token.created_by === person.user_id) return { allowed, token };
  throw new AppError(
    'permission_denied',
    'This key was made for you by somebody else, who may change it. You may revoke it.',
    { param: 'name' },
  );
}

/**
 * Says what an organization allows from now on; keys that were made before stay as they are. A
 * window without a budget is none.
 */
export function putSettings(
  trx: Db,
  org_id: string,
  given: MemberKeySettings,
): Promise<MemberKeySettings> {
  return one<MemberKeySettings>(
    trx,
    `insert into member_key_settings (org_id, ${columns})
     values (:org_id, :enabled, :max_keys, :max_budget_nanos, :budget_window, :allowed_models, :max_days)
     on conflict (org_id) do update set enabled = excluded.enabled, max_keys = excluded.max_keys,
       max_budget_nanos = excluded.max_budget_nanos, budget_window = excluded.budget_window, allowed_models = excluded.allowed_models, max_days = excluded.max_days,
       updated_at = clock_timestamp()
     returning ${columns}`,
    {
      ...given,
      org_id,
      budget_window: given.max_budget_nanos === null ? null : given.budget_window,
    },
  );
}

type Bounds = Pick<NewToken, 'allowed_models' | 'max_budget_nanos' | 'expires_at'> &
  Pick<Token, 'budget_window'>;

/** What a member asks for; what is absent becomes all that the organization allows. */
export type Asked = {
  [bound in keyof Omit<Bounds, 'budget_window'>]?: Bounds[bound] | undefined;
} & {
  /** `life`, or null: the budget is for the life of the key. */
  budget_window?: Bounds['budget_window'] | 'life' | undefined;
};

const DAY_MS = 86_400_000;

/**
 * The bounds of a member's key: what they ask for within what the organization allows. Throws 422
 * that names the field which goes beyond.
 */
export function within(allowed: MemberKeySettings, asked: Asked, now = new Date()): Bounds {
  const { max_budget_nanos, allowed_models, max_days } = allowed;
  const last = max_days === null ? null : new Date(now.getTime() + max_days * DAY_MS);
  const bounds: Bounds = {
    max_budget_nanos: asked.max_budget_nanos ?? max_budget_nanos,
    allowed_models: asked.allowed_models ?? allowed_models,
    expires_at: asked.expires_at ?? last,
    budget_window: windowOf(allowed, asked),
  };
  if (max_budget_nanos !== null && (bounds.max_budget_nanos ?? 0n) > max_budget_nanos)
    throw beyond('max_budget', "is above what your organization allows for a member's key");
  // A budget of a window is spent anew in the next one: only the organization's own is no more.
  if (max_budget_nanos !== null && ![null, allowed.budget_window].includes(bounds.budget_window))
    throw beyond('budget_window', 'is another window than your organization allows');
  const excess =
    allowed_models && bounds.allowed_models?.find((one) => !covers(allowed_models, one));
  if (excess)
    throw beyond('allowed_models', `holds ${excess}, which your organization does not allow`);
  if (last !== null && bounds.expires_at !== null && bounds.expires_at > last)
    throw beyond('expires_at', `is later than the ${max_days} days that your organization allows`);
  return bounds;
}

function windowOf(allowed: MemberKeySettings, { budget_window }: Asked): Bounds['budget_window'] {
  const wanted = budget_window === undefined ? allowed.budget_window : budget_window;
  return wanted === 'life' ? null : wanted;
}

/**
 * Refuses (403) to a member more than their key has now: its budget, its models, its time, and a
 * window of a budget that it has. Whoever narrowed it may have been an admin.
 */
export function requireLess(now: Bounds, asked: Asked, bounds: Bounds): void {
  const { max_budget_nanos, allowed_models, expires_at, budget_window } = bounds;
  const isMore = {
    max_budget_nanos: () =>
      now.max_budget_nanos !== null &&
      (asked.max_budget_nanos === null || (max_budget_nanos ?? 0n) > now.max_budget_nanos),
    allowed_models: () => {
      const list = now.allowed_models;
      return list !== null && !(allowed_models?.every((one) => covers(list, one)) ?? false);
    },
    expires_at: () =>
      now.expires_at !== null && (expires_at === null || expires_at > now.expires_at),
    budget_window: () =>
      now.max_budget_nanos !== null && ![null, now.budget_window].includes(budget_window),
  };
  for (const [name, param, what] of narrowing)
    if (asked[name] !== undefined && isMore[name]())
      throw new AppError(
        'permission_denied',
        `${what} may only become less here. Ask an admin for more: PATCH /v1/tokens/{name}.`,
        { param },
      );
}

const narrowing = [
  ['max_budget_nanos', 'max_budget', 'A budget'],
  ['allowed_models', 'allowed_models', 'The models of a key'],
  ['expires_at', 'expires_at', 'The time of a key'],
  ['budget_window', 'budget_window', 'What a window lets a key spend'],
] as const;

/** True if every model that a pattern allows is one that the list allows. */
function covers(list: readonly string[], pattern: string): boolean {
  return list.some(
    (one) => one === pattern || (one.endsWith('*') && pattern.startsWith(one.slice(0, -1))),
  );
}

function beyond(param: string, words: string): AppError {
  return new AppError(
    'invalid_field',
    `${param} ${words}. Ask for less, or ask an admin: GET /v1/organizations/{id}/member-keys shows the limits.`,
    { param },
  );
}

/** Refuses (403) a member of an organization that lets them make no keys. */
export function requireEnabled({ enabled }: MemberKeySettings): void {
  if (enabled) return;
  throw new AppError(
    'permission_denied',
    'Your organization does not let members make keys. Ask an admin for a key, or to allow it: PUT /v1/organizations/{id}/member-keys.',
  );
}

/** Refuses (409) one more living key of a person's own making. The organization is locked. */
export async function requireRoom(
  trx: Db,
  at: { org_id: string; user_id: string },
  { max_keys }: MemberKeySettings,
): Promise<void> {
  const { count } = await one<{ count: number }>(
    trx,
    `select count(*)::int as count from tokens t
     where t.org_id = :org_id and t.user_id = :user_id and t.created_by = :user_id and t.token_type = 'gateway'
       and t.revoked_at is null and coalesce(t.expires_at > clock_timestamp(), true)`,
    at,
  );
  if (count < max_keys) return;
  throw new AppError(
    'living_keys_exceeded',
    `You have ${count} living keys of your own making, and may have ${max_keys}. Revoke one that you do not use.`,
  );
}
