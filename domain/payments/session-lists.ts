import { type Listing, type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import type { Db } from '../sql';
import { type Buyer, isOwn } from './buyer';
import type { ProviderName } from './currencies';
import { type Session, type SessionStatus, sessionColumns, sessionTable } from './sessions';

/** Which sessions a list shows: `from` inclusive, `until` exclusive. */
export interface SessionFilter {
  org_id?: string | undefined;
  provider?: ProviderName | undefined;
  status?: SessionStatus | undefined;
  from?: Date | undefined;
  until?: Date | undefined;
}

const conditionsOf: Record<keyof SessionFilter, string> = {
  org_id: 's.org_id = :org_id',
  provider: 's.provider = :provider',
  status: 's.status = :status',
  from: 's.created_at >= :from',
  until: 's.created_at < :until',
};

/** An organization's sessions. */
export function list(
  db: Db,
  filter: SessionFilter & { org_id: string },
  request: ListRequest,
): Promise<Page<Session> | Part<Session>> {
  const payments = { name: 'payments', select: sessionColumns };
  return listOf(db, listingOf(payments, filter), request);
}

/** The sessions of a buyer. */
export function listOwn(
  db: Db,
  buyer: Buyer,
  filter: Omit<SessionFilter, 'org_id'>,
  request: ListRequest,
): Promise<Page<Session> | Part<Session>> {
  const own = { name: 'own payments', select: sessionColumns };
  // A person's payments are the same after their next sign-in, and so are its parts.
  const who = buyer.user_id === null ? buyer : { ...buyer, created_by: '' };
  return listOf(db, listingOf(own, filter, who), request);
}

/** A list of the sessions that a filter leaves: a buyer's own, or everybody's. */
export function listingOf(
  list: Pick<Listing, 'name' | 'select'>,
  filter: SessionFilter,
  buyer?: Buyer,
): Listing {
  const names = Object.keys(conditionsOf) as (keyof SessionFilter)[];
  const given = names.filter((name) => filter[name] !== undefined);
  const conditions = [buyer ? isOwn : 'true', ...given.map((name) => conditionsOf[name])];
  return {
    ...list,
    from: `${sessionTable} where ${conditions.join(' and ')}`,
    bindings: { ...filter, ...buyer },
    id: 's.id',
    created_at: 's.created_at',
    orders: { created_at: { by: 's.created_at', type: 'timestamptz' } },
  };
}
