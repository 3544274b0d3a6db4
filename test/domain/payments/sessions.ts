import { audit } from '../../../domain/ledger/audit';
import * as payments from '../../../domain/payments/sessions';
import * as steps from '../../../domain/payments/steps';
import { type Db, many, one } from '../../../domain/sql';
import { makeTenant, type Tenant } from '../../support/api';
import { openTestDatabase } from '../../support/database';

// The guarantees of payments that the database alone gives: its state table, one credit, and a
// wallet that follows refunds and disputes. A test file that imports this also gets its hooks.

export const UNIT = 1_000_000_000n;
export let db: Db;
let close: () => Promise<void>;
export let tenant: Tenant;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
beforeEach(async () => {
  tenant = await makeTenant(db);
});
afterAll(async () => {
  const { broken } = await audit(db);
  await close();
  expect(broken).toEqual([]);
});

export async function makeSession(amount_nanos = 50n * UNIT): Promise<string> {
  const { org_id, member_id } = tenant;
  const id = await payments.create(db, {
    buyer: { org_id, user_id: member_id, created_by: member_id },
    provider: 'payment_provider_b',
    surface: 'console',
    amount_nanos,
    currency: 'USD',
    owner: { owner_type: 'organization' },
    return_url: 'http://127.0.0.1:3000/return',
    cancel_url: 'http://127.0.0.1:3000/cancel',
  });
  await steps.opened(db, id, { order_id: `order-${id}`, approval_url: 'http://127.0.0.1/pay' });
  return id;
}

export const nothing = {
  capture_id: null,
  amount_nanos: null,
  currency: null,
  refunds: [],
  disputes: [],
};

/** A provider's report of a payment that was made. */
export function paid(id: string, more: Partial<steps.Report> = {}): steps.Report {
  const said = { status: 'captured', capture_id: `capture-${id}` };
  return { ...nothing, ...said, amount_nanos: 50n * UNIT, currency: 'USD', ...more };
}

export async function tell(id: string, report: steps.Report): Promise<payments.Session> {
  const { reading } = await steps.begin(db, id, { is_capture: false });
  await steps.record(db, id, report, { reading });
  return payments.getAny(db, id);
}

export async function completed(): Promise<string> {
  const id = await makeSession();
  await tell(id, paid(id));
  await steps.credit(db, id);
  return id;
}

export async function balance(): Promise<bigint> {
  const { balance_nanos } = await one<{ balance_nanos: bigint }>(
    db,
    'select balance_nanos from wallets where id = :wallet_id',
    { wallet_id: tenant.wallet_id },
  );
  return balance_nanos / UNIT;
}

export function entries(id: string) {
  return many<{ type: string; amount: number }>(
    db,
    `select type, (amount_nanos / 1e9)::float as amount from wallet_transactions where payment_session_id = :id order by seq`,
    { id },
  );
}
