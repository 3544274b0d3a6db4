import { type Listing, type ListRequest, listOf, type Part, type Search } from '../../lists';
import { named } from '../../named';
import { isMadeBefore, type Page, pageOf } from '../../pages';
import type { Db } from '../../sql';
import {
  type OwnerType,
  type Viewer,
  visibleTo,
  type Wallet,
  walletColumns,
  walletTable,
} from '../wallets';

// What a wallet has, holds included, against its threshold.
const conditionOf = {
  healthy: 'l.nanos > 0 and l.nanos >= l.threshold_nanos',
  low: 'l.nanos > 0 and l.nanos < l.threshold_nanos',
  depleted: 'l.nanos = 0',
  in_debt: 'l.nanos < 0',
} as const;

/** How a wallet stands: its money, holds included, against its threshold and 0. */
export type WalletStatus = keyof typeof conditionOf;

export const walletStatuses = Object.keys(conditionOf) as [WalletStatus, ...WalletStatus[]];

const levels = `
  cross join lateral (select w.balance_nanos + w.reserved_nanos as nanos,
    coalesce(w.low_balance_threshold_nanos, o.low_balance_threshold_nanos) as threshold_nanos) as l`;

const found = `has_words(array[coalesce(t.name, u.name, o.name), coalesce(u.email, '')], :q)`;

// By the indexes of members and teams; former members, who keep their wallets, are looked at one by
// one. What is found leads: each of its wallets is looked up, whatever the planner takes it for.
const indexed = `
  select v.id from (
    (${named.users} offset 0)
    union all
    (select m.user_id from memberships m where m.org_id = :org_id and m.archived_at is not null
      and has_words(array[m.name, m.email], :q) offset 0)) as n (id)
  cross join lateral (select w.id from wallets w
    where w.org_id = :org_id and w.owner_type = 'user' and w.owner_user_id = n.id offset 0) as v
  union all
  select v.id from (${named.teams} offset 0) as n
  cross join lateral (select w.id from wallets w
    where w.org_id = :org_id and w.owner_type = 'team' and w.owner_team_id = n.id offset 0) as v
  union all
  select w.id from organizations z join wallets w on w.org_id = z.id and w.owner_type = 'organization'
    where z.id = :org_id and has_words(array[z.name], :q)`;

/** Which wallets; all that are given must fit. */
export interface WalletFilter {
  /** Words of the owner's name or e-mail address. */
  q?: string | undefined;
  status?: WalletStatus | undefined;
  owner_type?: OwnerType | undefined;
  team_id?: string | undefined;
  user_id?: string | undefined;
  /** Wallets of this team's people. */
  member_of?: string | undefined;
}

/** A part of a list of wallets; without an order it is by their owners. */
type WalletsRequest = Omit<ListRequest, 'sort'> & { sort?: string | undefined };

/**
 * The wallets that a person may see: organization's, teams', users', each newest first; by a cursor
 * or in an order that is asked for as they were made.
 */
export function list(
  db: Db,
  viewer: Viewer,
  filter: WalletFilter,
  { sort, ...request }: WalletsRequest,
): Promise<Page<Wallet> | Part<Wallet>> {
  const conditions = [visibleTo(viewer), ...conditionsOf(filter)].join(' and ');
  const bindings = { ...viewer, ...bindingsOf(filter) };
  if (sort !== undefined || request.cursor !== undefined)
    return listOf(db, listing(conditions, bindings, searchOf(filter)), {
      sort: '-created_at',
      ...request,
      ...(sort ? { sort } : {}),
    });
  return pageOf(
    db,
    {
      select: walletColumns,
      all: `${walletTable} ${levels} where ${conditions} ${filter.q ? `and ${found}` : ''} and ${isMadeBefore('w.created_at')}`,
      ordered: `order by array_position(array['organization', 'team', 'user'], w.owner_type), w.id desc`,
    },
    bindings,
    request,
  );
}

/** All wallets of all organizations, or of one, for platform admins: newest first. */
export function listAll(
  db: Db,
  { org_id, ...filter }: WalletFilter & { org_id?: string | undefined },
  { sort = '-created_at', ...request }: WalletsRequest,
): Promise<Page<Wallet> | Part<Wallet>> {
  const of = org_id === undefined ? 'true' : 'w.org_id = :org_id';
  // The indexes of words know an organization's alone.
  const search = org_id === undefined ? undefined : searchOf(filter);
  const words = filter.q && search === undefined ? [found] : [];
  const conditions = [of, ...conditionsOf(filter), ...words].join(' and ');
  const bindings = { org_id: org_id ?? null, ...bindingsOf(filter) };
  return listOf(db, listing(conditions, bindings, search), { sort, ...request });
}

function searchOf({ q }: WalletFilter): Search | undefined {
  const among = 'select w.id from wallets w where w.org_id = :org_id';
  return q ? { found: indexed, plain: found, among } : undefined;
}

function conditionsOf({ status, owner_type, team_id, user_id, member_of }: WalletFilter): string[] {
  return [
    ...(status ? [conditionOf[status]] : []),
    ...(owner_type ? ['w.owner_type = :owner_type'] : []),
    ...(team_id ? [`w.owner_type = 'team' and w.owner_team_id = :owner_team_id`] : []),
    ...(user_id ? [`w.owner_type = 'user' and w.owner_user_id = :owner_user_id`] : []),
    ...(member_of
      ? [
          `w.owner_type = 'user' and w.owner_user_id in (select tm.user_id from team_members tm where tm.team_id = :member_of)`,
        ]
      : []),
  ];
}

function bindingsOf({ q, status, owner_type, team_id, user_id, member_of }: WalletFilter) {
  return {
    q: q ?? null,
    // No SQL reads it: it tells the cursors of two lists apart.
    status: status ?? null,
    owner_type: owner_type ?? null,
    owner_team_id: team_id ?? null,
    owner_user_id: user_id ?? null,
    member_of: member_of ?? null,
  };
}

function listing(conditions: string, bindings: Listing['bindings'], search?: Search): Listing {
  return {
    name: 'wallets',
    select: walletColumns,
    from: `${walletTable} ${levels} where ${conditions}`,
    bindings,
    search,
    id: 'w.id',
    created_at: 'w.created_at',
  };
}
