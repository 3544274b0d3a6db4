import { type Db, many } from '../../../domain/sql';

/** What an audit row must show for a verb: `old` and `new` say which sides there are. */
const sides: Record<string, { old?: true; new?: true }> = {
  created: { new: true },
  confirmed: { old: true, new: true },
  replayed: { new: true },
  retried: { new: true },
  ended: {},
  changed: { old: true, new: true },
  rotated: { old: true, new: true },
  paused: { old: true, new: true },
  resumed: { old: true, new: true },
  aborted: { old: true, new: true },
  promoted: { old: true, new: true },
  credited: { old: true, new: true },
  debited: { old: true, new: true },
  allocated: { old: true, new: true },
  reclaimed: { old: true, new: true },
  approved: { old: true, new: true },
  denied: { old: true, new: true },
  raised: { new: true },
  canceled: { old: true, new: true },
  cancel_asked: { old: true, new: true },
  resolved: { old: true, new: true },
  charged: { old: true, new: true },
  dropped: { old: true, new: true },
  succeeded: { old: true, new: true },
  failed: { old: true, new: true },
};

/** A row of the log as the database has it. */
export interface Logged {
  id: string;
  action: string;
  actor: string | null;
  actor_type: string;
  key_id: string | null;
  session_id: string | null;
  request_id: string | null;
  org_id: string | null;
  object_id: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}

export async function newestId(db: Db): Promise<string> {
  const [row] = await many<{ id: string }>(db, 'select max(id) as id from audit_events');
  return row?.id ?? '';
}

export async function loggedSince(db: Db, id: string): Promise<Logged[]> {
  return many<Logged>(db, 'select * from audit_events where id > :id order by id', { id });
}

/** Every row has what its verb says, before and after. */
export function expectSides(rows: readonly Pick<Logged, 'action' | 'before' | 'after'>[]): void {
  for (const { action, before, after } of rows) {
    const verb = action.split('.')[1] ?? '';
    expect([action, verb in sides]).toEqual([action, true]);
    const wanted = sides[verb] ?? {};
    if (wanted.old) expect([action, before]).toEqual([action, expect.any(Object)]);
    if (wanted.new) expect([action, after]).toEqual([action, expect.any(Object)]);
    if (verb === 'ended') expect([action, before]).toEqual([action, expect.any(Object)]);
    expect([action, before ?? after]).toEqual([action, expect.any(Object)]);
  }
}

/** Routes whose rows are written in steps of their own; the file that walks each. */
export const walked = {
  'money.test.ts': [
    'post /v1/wallets/credit',
    'post /v1/wallets/allocate',
    'post /v1/wallets/reclaim',
    'post /v1/organizations/{id}/teams/{team_id}/allocate',
    'post /v1/organizations/{id}/teams/{team_id}/reclaim',
    'post /v1/admin/wallets/credit',
    'post /v1/admin/settlement-excess/{id}',
    'post /v1/exports',
    'post /v1/admin/exports',
    'post /v1/notice-destinations',
    'put /v1/notice-destinations/{id}',
    'post /v1/notice-recipients/{id}/confirm',
    'post /v1/sessions',
  ],
  'decisions.test.ts': [
    'post /v1/cost-tickets/{id}/approve',
    'post /v1/cost-tickets/{id}/deny',
    'post /v1/cost-tickets/verdicts',
  ],
  'payments.test.ts': [
    'post /v1/payments/create-checkout',
    'post /v1/payments/confirm-checkout',
    'post /v1/payments/sessions/{id}/cancel',
    'post /v1/payments/create-order',
    'post /v1/payments/capture-order',
    'post /v1/admin/payments/refund',
    'post /v1/admin/payments/{id}/resolve',
  ],
  '../../notices/links.test.ts': ['post /v1/ticket-links/decide'],
  '../../exports/buckets.test.ts': ['post /v1/export-destinations'],
} as const;

/** Routes that write no row, and why. */
export const silent: Record<string, string> = {
  'post /v1/admin/model-pricing/preview': 'changes nothing',
  'post /v1/admin/price-imports/diff': 'changes nothing',
  'post /v1/notice-destinations/{id}/test': 'changes nothing; the log of messages has it',
  'post /v1/ticket-links/look': 'changes nothing',
  'post /v1/gateway/wallets/reserve': 'a priced call',
  'post /v1/gateway/wallets/settle': 'a priced call',
  'post /v1/gateway/wallets/redeem-ticket': 'a priced call',
  'post /v1/gateway/wallets/extend': 'a priced call',
  'post /v1/gateway/wallets/batch': 'priced calls',
  'post /v1/gateway/agents/{id}/usage-increment': 'a priced call',
  'post /v1/gateway/keys/verify': 'changes nothing',
  'post /v1/gateway/people/verify': 'changes nothing',
  'post /v1/gateway/keys/funds': 'changes nothing',
  'post /v1/gateway/provider-keys': 'a use, of which an event tells',
  'post /v1/gateway/events': 'events of gateways have a log of their own',
  'post /v1/gateway/config/report': 'how a gateway fares',
  'post /v1/payments/webhooks/{provider}':
    'news of a provider; the worker who asks it writes the row of the credit',
  'post /v1/payments/webhook': 'the same',
};
