import { randomUUID } from 'node:crypto';
import type { Knex } from 'knex';
import { type Db, one } from '../domain/sql';

const HOLD = 61_500n;
const COST = 4_500n;

/**
 * The way that most systems are written, for comparison: the same reads and writes as reserve and
 * settle, statement by statement from the client, one transaction each.
 */
export async function interactiveCycle(
  db: Db,
  { org_id, key_id }: { org_id: string; key_id: string },
): Promise<void> {
  const id = `res_${randomUUID()}`;
  const request_id = randomUUID();
  await db.transaction(async (trx) => {
    const wallet = await lockWallet(trx, org_id);
    await trx.raw('select 1 from reservations where org_id = ? and request_id = ?', [
      org_id,
      request_id,
    ]);
    await trx.raw('select 1 from tokens where id = ? and revoked_at is null', [key_id]);
    const price = await one<{ version_id: string }>(
      trx,
      `select version_id from model_prices where provider = 'openai' and model = 'gpt-4o-mini' and retired_at is null`,
    );
    await trx.raw(
      `insert into reservations (id, org_id, request_id, status, wallet_id, wallet_owner_type, key_id, provider, model, price_version_id,
         exchange_rate, currency, estimated_nanos, held_nanos, life_seconds, created_at, expires_at)
       values (?, ?, ?, 'open', ?, 'organization', ?, 'openai', 'gpt-4o-mini', ?, 1, 'USD', ?, ?, 900, now(), now() + interval '15 minutes')`,
      [id, org_id, request_id, wallet.id, key_id, price.version_id, HOLD, HOLD].map(String),
    );
    await post(trx, wallet, {
      type: 'reservation',
      phase: 'hold',
      amount: -HOLD,
      reserved: HOLD,
      id,
    });
  });
  await db.transaction(async (trx) => {
    const wallet = await lockWallet(trx, org_id);
    await trx.raw('select held_nanos, price_version_id from reservations where id = ?', [id]);
    await trx.raw(
      `update reservations set status = 'settled', actual_cost_nanos = ?, closed_at = now() where id = ?`,
      [String(COST), id],
    );
    await trx.raw('update tokens set spent_nanos = spent_nanos + ? where id = ?', [
      String(COST),
      key_id,
    ]);
    await post(trx, wallet, {
      type: 'settlement',
      phase: 'close',
      amount: HOLD - COST,
      reserved: -HOLD,
      id,
    });
  });
}

interface LockedWallet {
  id: string;
  org_id: string;
  seq: bigint;
  balance_nanos: bigint;
}

function lockWallet(trx: Knex.Transaction, org_id: string): Promise<LockedWallet> {
  return one<LockedWallet>(
    trx,
    `select id, org_id, seq, balance_nanos from wallets where org_id = :org_id and owner_type = 'organization' for update`,
    { org_id },
  );
}

async function post(
  trx: Knex.Transaction,
  wallet: LockedWallet,
  entry: { type: string; phase: string; amount: bigint; reserved: bigint; id: string },
): Promise<void> {
  await trx.raw(
    'update wallets set balance_nanos = balance_nanos + ?, reserved_nanos = reserved_nanos + ?, seq = seq + 1 where id = ?',
    [String(entry.amount), String(entry.reserved), wallet.id],
  );
  await trx.raw(
    `insert into wallet_transactions (id, wallet_id, org_id, seq, type, phase, amount_nanos, balance_after_nanos, reservation_id, created_at)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, now())`,
    [
      `txn_${randomUUID()}`,
      wallet.id,
      wallet.org_id,
      String(wallet.seq + 1n),
      entry.type,
      entry.phase,
      String(entry.amount),
      String(wallet.balance_nanos + entry.amount),
      entry.id,
    ],
  );
}
