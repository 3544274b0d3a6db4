import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import * as wallets from '../../domain/ledger/wallets';
import * as members from '../../domain/people/members';
import * as organizations from '../../domain/people/organizations';
import * as teams from '../../domain/people/teams';
import * as tokens from '../../domain/people/tokens';
import { type Db, maybe } from '../../domain/sql';
import { replaceFile } from '../processes/data-directory';
import { seedPrices } from './price-seed';

export interface Seeded {
  organization_id: string;
  team_id: string;
  /** A team that no key draws on: where the walk through a ticket puts the wallet's money aside. */
  savings_team_id: string;
  user_id: string;
  /** Who may do everything in the organization, and signs in to the console. */
  owner_id: string;
  agent_id: string;
  /** The organization's wallet. */
  wallet_id: string;
  provider: string;
  models: [chat: string, embedding: string];
  keys: {
    platform_admin: string;
    billing_admin: string;
    member: string;
    gateway: string;
    control_plane: string;
  };
}

const FUNDS_NANOS = 100_000_000_000n;

const SAVINGS = 'Savings';
const owner = { name: 'Olivia Owner', role: 'owner' } as const;

/**
 * The demo organization with money, prices and keys. Made once: a second call finds it by
 * `keys.json` in the data directory, as long as the database is the same one, and brings back what
 * the walk through a ticket has put aside.
 */
export async function seed(db: Db, { data_dir }: { data_dir: string }): Promise<Seeded> {
  const file = path.join(data_dir, 'keys.json');
  const known = await findSeeded(db, file);
  if (known?.savings_team_id && known.owner_id) {
    await giveBack(db, known);
    return known;
  }
  // Made by a version that knew no savings team, or no owner.
  const seeded = known ? await completed(db, known) : await seedAll(db);
  replaceFile(file, `${JSON.stringify(seeded, null, 2)}\n`);
  return seeded;
}

function seedAll(db: Db): Promise<Seeded> {
  return db.transaction(async (trx) => {
    await seedPrices(trx);
    return seedOrganization(trx);
  });
}

/** What an earlier version did not make is added. */
async function completed(db: Db, known: Seeded): Promise<Seeded> {
  const { organization_id: org_id } = known;
  const savings_team_id =
    known.savings_team_id ?? (await organizations.createTeam(db, org_id, SAVINGS)).id;
  const owner_id = known.owner_id ?? (await members.add(db, org_id, owner)).user_id;
  return { ...known, savings_team_id, owner_id };
}

/** A walk that was left halfway would keep the first printed call of the next start waiting. */
async function giveBack(db: Db, { organization_id: org_id, ...seeded }: Seeded): Promise<void> {
  const saved = await maybe<{ id: string; balance_nanos: bigint }>(
    db,
    'select id, balance_nanos from wallets where owner_team_id = :team_id and balance_nanos > 0',
    { team_id: seeded.savings_team_id },
  );
  if (saved === undefined) return;
  const { id: from, balance_nanos: amount_nanos } = saved;
  const description = 'back for the next walk';
  await wallets.transfer(db, { org_id, from, to: seeded.wallet_id, amount_nanos, description });
}

async function findSeeded(db: Db, file: string): Promise<Seeded | undefined> {
  if (!existsSync(file)) return undefined;
  const seeded: Seeded = JSON.parse(readFileSync(file, 'utf8'));
  const found = await maybe(db, 'select 1 from organizations where id = :id', {
    id: seeded.organization_id,
  });
  return found ? seeded : undefined;
}

async function seedOrganization(trx: Db): Promise<Seeded> {
  const org_id = (await organizations.create(trx, { name: 'Demo', currency: 'USD' })).id;
  const admin = await members.add(trx, org_id, {
    name: 'Bea Billing',
    role: 'billing_admin',
  });
  const { user_id: owner_id } = await members.add(trx, org_id, owner);
  const member = await members.add(trx, org_id, { name: 'Mo Member', role: 'member' });
  const team = await organizations.createTeam(trx, org_id, 'Research');
  await teams.add(trx, { org_id, team_id: team.id, user_id: member.user_id });
  const savings = await organizations.createTeam(trx, org_id, SAVINGS);
  const agent = await organizations.createAgent(trx, org_id, 'assistant');
  const wallet = await wallets.ensure(trx, org_id, { owner_type: 'organization' });
  await wallets.credit(trx, wallet.wallet_id, {
    org_id,
    amount_nanos: FUNDS_NANOS,
    description: 'demo money',
  });
  const owners = { user_id: member.user_id, team_id: team.id };
  return {
    organization_id: org_id,
    team_id: team.id,
    savings_team_id: savings.id,
    user_id: member.user_id,
    owner_id,
    agent_id: agent.id,
    wallet_id: wallet.wallet_id,
    provider: 'openai',
    models: ['gpt-4o-mini', 'text-embedding-3-small'],
    keys: {
      platform_admin: await issue(trx, null, 'demo-platform-admin', { scopes: ['platform:admin'] }),
      billing_admin: await issue(trx, org_id, 'demo-billing-admin', {
        scopes: ['org:billing'],
        user_id: admin.user_id,
      }),
      member: await issue(trx, org_id, 'demo-member', { user_id: member.user_id }),
      gateway: await issue(trx, org_id, 'demo-gateway', { token_type: 'gateway', ...owners }),
      control_plane: await issue(trx, null, 'demo-control-plane', { scopes: ['control_plane'] }),
    },
  };
}

async function issue(
  trx: Db,
  org_id: string | null,
  name: string,
  more: Partial<tokens.NewToken>,
): Promise<string> {
  // A data directory that was lost leaves platform keys behind under these names.
  if (org_id === null)
    await trx.raw(
      'update tokens set revoked_at = clock_timestamp() where org_id is null and name = ? and revoked_at is null',
      [name],
    );
  const blank: tokens.NewToken = {
    org_id,
    name,
    token_type: 'access',
    scopes: [],
    allowed_models: null,
    user_id: null,
    team_id: null,
    agent_id: null,
    max_budget_nanos: null,
    expires_at: null,
    created_by: 'npm start',
  };
  return (await tokens.issue(trx, { ...blank, ...more })).key;
}
