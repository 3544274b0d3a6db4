import * as auditEvents from '../../domain/audit-events';
import type { Db } from '../../domain/sql';
import { actorOf, type Principal } from './access';

interface Call {
  db: Db;
  principal: Principal;
  request_id: string;
}

/**
 * Runs a change in one transaction in the caller's name: its ledger entries and audit events say
 * who made it.
 */
export function inName<T>(call: Call, action: (db: Db) => Promise<T>): Promise<T> {
  return call.db.transaction(async (trx) => {
    await auditEvents.actAs(trx, actingOf(call));
    return action(trx);
  });
}

/** Who acts, and the key or session that was used. */
export function actingOf({ principal, request_id }: Omit<Call, 'db'>): auditEvents.Acting {
  const { id, user_id } = principal;
  return { actor: actorOf(principal), key_id: id === user_id ? undefined : id, request_id };
}
