import { randomUUID } from 'node:crypto';
import type { Batches } from '../../../api/ledger/batches';
import * as verdicts from '../../../domain/ledger/verdicts';
import type * as tokens from '../../../domain/people/tokens';
import { type Db, many, one } from '../../../domain/sql';
import { makeKeyId } from '../../support/keys';
import { makeFundedOrg, openLedger, reserveBody, type TestOrg } from '../../support/ledger';
import { makeBudget, ownBody } from './making';

// A verdict is recorded later than it is given: by what its giver may then.

let db: Db;
let lanes: Batches;
let close: () => Promise<void>;
let org: TestOrg;

beforeAll(async () => {
  ({ db, lanes, close } = await openLedger());
});

beforeEach(async () => {
  org = await makeFundedOrg(db, 10_000);
  await makeBudget(db, org, 10, { on_exceed: 'ticket' });
});

afterAll(() => close());

/** An open ticket of the organization's team. */
async function openTicket(): Promise<string> {
  const { org_id, team_id } = org;
  const refused = await lanes.reserve(reserveBody(org_id, 70, { team_id, ...ownBody() }));
  return String(refused.cost_ticket?.id);
}

async function makeMember(role: string): Promise<string> {
  const { id } = await one<{ id: string }>(
    db,
    `insert into users (name) values ('Decider') returning id`,
  );
  await many(db, 'insert into memberships (org_id, user_id, role) values (:org_id, :id, :role)', {
    org_id: org.org_id,
    id,
    role,
  });
  return id;
}

const decide = async (ticket_id: string, more: Partial<verdicts.Verdict>) =>
  verdicts.decide(db, {
    id: randomUUID(),
    ticket_id,
    org_id: org.org_id,
    verdict: 'approved',
    by: 'somebody',
    is_platform: false,
    valid_until: await verdicts.verdictDeadline(db),
    ...more,
  });

const statusOf = (id: string) =>
  one<{ status: string }>(db, 'select status from cost_tickets where id = :id', { id });

const losses: Record<string, (user_id: string, key_id: string) => Promise<unknown>> = {
  'their role': (user_id) =>
    many(db, `update memberships set role = 'member' where user_id = :user_id`, { user_id }),
  'their place': (user_id) =>
    many(db, 'update memberships set archived_at = clock_timestamp() where user_id = :user_id', {
      user_id,
    }),
  'their key': (_, id) =>
    many(db, 'update tokens set revoked_at = clock_timestamp() where id = :id', { id }),
  'the scope of their key': (_, id) =>
    many(db, `update tokens set scopes = '{events:read}' where id = :id`, { id }),
};

describe.each(['approved', 'denied'] as const)('a verdict "%s"', (verdict) => {
  test.each(Object.keys(losses))('of somebody who has lost %s is refused', async (loss) => {
    const by = await makeMember('billing_admin');
    const key: Partial<tokens.NewToken> = { token_type: 'access', scopes: ['org:billing'] };
    const key_id = await makeKeyId(db, org.org_id, { ...key, user_id: by });
    const [first, second] = [await openTicket(), await openTicket()];
    const given = { by, key_id, verdict };
    const id = randomUUID();
    expect(await decide(first, { ...given, id })).toBe(verdict);
    await losses[loss]?.(by, key_id);
    await expect(decide(second, given)).rejects.toMatchObject({ code: 'permission_denied' });
    expect(await statusOf(second)).toEqual({ status: 'open' });
    // What was recorded stays so, however often it is delivered.
    expect(await decide(first, { ...given, id })).toBe(verdict);
  });

  test("of a team's former admin is refused", async () => {
    const { team_id } = org;
    const by = await makeMember('member');
    await many(
      db,
      `insert into team_members (team_id, user_id, role) values (:team_id, :by, 'admin')`,
      { team_id, by },
    );
    const ticket_id = await openTicket();
    await many(db, `update team_members set role = 'member' where user_id = :by`, { by });
    await expect(
      decide(ticket_id, { by, user_id: by, authority: 'team', verdict }),
    ).rejects.toMatchObject({ code: 'permission_denied' });
    expect(await statusOf(ticket_id)).toEqual({ status: 'open' });
  });
});
