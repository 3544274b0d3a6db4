import type { Db } from '../../domain/sql';
import { openTestDatabase } from '../support/database';
import { makeKeyId } from '../support/keys';
import { BODY_HASH, chat, makeOrg, makePrice, type TestOrg } from '../support/ledger';
import { ledgerCalls, type Row, sender } from './previous-version';

// An organization and its ledger, asked as the previous version asks. A test file that imports this
// also gets its hooks.

export const UNIT = 1_000_000_000n;
export const ledger = sender(ledgerCalls);
export let db: Db;
let close: () => Promise<void>;
export let org: TestOrg;
export let key_id: string;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
  await makePrice(db);
});
beforeEach(async () => {
  org = await makeOrg(db);
  key_id = await makeKeyId(db, org.org_id);
});
afterAll(() => close());

type Call = keyof typeof ledgerCalls;
export const send = (name: Call, bindings: Row = {}) => ledger.send(db, name, bindings);
export const row = (name: Call, bindings: Row = {}) => ledger.row(db, name, bindings);

/** One batch of the ledger with the given items, answered row by row. */
export function batch(items: {
  settlements?: Row[];
  redeems?: Row[];
  reserves?: Row[];
}): Promise<Row[]> {
  const { settlements = [], redeems = [], reserves = [] } = items;
  return send('lane_3', {
    org_id: org.org_id,
    settlements: JSON.stringify(settlements),
    redeems: JSON.stringify(redeems),
    reserves: JSON.stringify(reserves),
  });
}

let requests = 0;

/** A reserve of so many tokens at 1000 nanos each. */
export function reserve(tokens: number, more: Row = {}): Row {
  const asked = { ...chat, estimated_prompt_tokens: tokens, max_completion_tokens: 0 };
  const who = { key_id, user_id: org.user_id, team_id: org.team_id };
  return { ...asked, ...who, request_id: `r${++requests}`, request_body_hash: BODY_HASH, ...more };
}

export function fill(wallet_id: string, amount_nanos: bigint): Promise<Row> {
  return row('credit', { org_id: org.org_id, wallet_id, amount_nanos, description: null });
}

/** The ticket that a reserve of 10 tokens opens, and its reserve. */
export async function refused(): Promise<{ id: string; item: Row }> {
  const item = reserve(10);
  const [answer] = await batch({ reserves: [item] });
  expect(answer).toMatchObject({ code: 'insufficient_balance', reserved_amount_nanos: 10_000n });
  return { id: ticketOf(answer), item };
}

export function ticketOf(answer: Row | undefined): string {
  return ((answer as Row).cost_ticket as { id: string }).id;
}

export function redeem({ id, item }: { id: string; item: Row }, wait_ms = 0): Row {
  const { request_id, request_body_hash, user_id } = item;
  return { ticket_id: id, request_id, request_body_hash, key_id, user_id, wait_ms };
}

export const verdict = (more: Row = {}) =>
  JSON.stringify({
    id: `v${++requests}`,
    by: 'user_boss',
    is_platform: true,
    valid_until: new Date(Date.now() + 30_000).toISOString(),
    ...more,
  });
