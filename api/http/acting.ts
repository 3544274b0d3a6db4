import * as auditEvents from '../../domain/audit-events';
import type { Db } from '../../domain/sql';
import type { Principal } from './access';

interface Call {
  db: Db;
  principal: Principal;
  request_id: string;
}

/**
 * Runs a change in one transaction in the caller's name: its ledger entries and audit events say
 * who made it.
 */
export function inName<T>(
  { db, principal, request_id }: Call,
  action: (db: Db) => Promise<T>,
): Promise<T> {
  const { id, user_id } = principal;
  return db.transaction(async (trx) => {
    await auditEvents.actAs(trx, {
      actor: user_id ?? id,
      key_id: id === user_id ? undefined : id,
      request_id,
    });
    return action(trx);
  });
}
