import { type Listing, type ListRequest, listOf, type Part } from '../lists';
import { isMadeBefore, type Page, pageOf } from '../pages';
import type { Db } from '../sql';
import {
  type OwnerType,
  type Viewer,
  visibleTo,
  type Wallet,
  walletColumns,
  walletTable,
} from './wallets';

/** Which wallets; all that are given must fit. */
export interface WalletFilter {
  owner_type?: OwnerType | undefined;
  team_id?: string | undefined;
  user_id?: string | undefined;
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
    return listOf(db, listing(conditions, bindings), {
      sort: '-created_at',
      ...request,
      ...(sort ? { sort } : {}),
    });
  return pageOf(
    db,
    `${walletColumns} ${walletTable} where ${conditions} and ${isMadeBefore('w.created_at')}
     order by array_position(array['organization', 'team', 'user'], w.owner_type), w.id desc`,
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
  const conditions = [of, ...conditionsOf(filter)].join(' and ');
  const bindings = { org_id: org_id ?? null, ...bindingsOf(filter) };
  return listOf(db, listing(conditions, bindings), { sort, ...request });
}

function conditionsOf({ owner_type, team_id, user_id }: WalletFilter): string[] {
  return [
    ...(owner_type ? ['w.owner_type = :owner_type'] : []),
    ...(team_id ? [`w.owner_type = 'team' and w.owner_team_id = :owner_team_id`] : []),
    ...(user_id ? [`w.owner_type = 'user' and w.owner_user_id = :owner_user_id`] : []),
  ];
}

function bindingsOf({ owner_type, team_id, user_id }: WalletFilter) {
  return {
    owner_type: owner_type ?? null,
    owner_team_id: team_id ?? null,
    owner_user_id: user_id ?? null,
  };
}

function listing(conditions: string, bindings: Listing['bindings']): Listing {
  return {
    name: 'wallets',
    select: walletColumns,
    from: `${walletTable} where ${conditions}`,
    bindings,
    id: 'w.id',
    created_at: 'w.created_at',
    orders: { created_at: undefined },
  };
}
