import { isMadeBefore, type Page, type PageRequest, pageOf } from '../pages';
import type { Db } from '../sql';
import { type Buyer, isOwn } from './buyer';
import { bindings, type Session, type SessionFilter, sessionRows } from './sessions';

/** The sessions of a buyer, newest first. */
export function listOwn(
  db: Db,
  buyer: Buyer,
  filter: Omit<SessionFilter, 'org_id'>,
  window: PageRequest,
): Promise<Page<Session>> {
  return pageOf<Session>(
    db,
    `${sessionRows} where ${isOwn} and (:provider::text is null or s.provider = :provider)
       and (:status::text is null or s.status = :status) and (:from::timestamptz is null or s.created_at >= :from)
       and (:until::timestamptz is null or s.created_at < :until) and ${isMadeBefore('s.created_at')}
     order by s.created_at desc, s.id desc`,
    { ...bindings(filter), ...buyer },
    window,
  );
}
