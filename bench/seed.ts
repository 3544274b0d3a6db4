import { randomUUID } from 'node:crypto';
import type { Knex } from 'knex';
import { sha256 } from '../domain/digest';
import * as constraints from '../domain/ledger/constraints';
import { newKey, type TokenType } from '../domain/people/keys';
import * as members from '../domain/people/members';
import * as organizations from '../domain/people/organizations';
import * as teams from '../domain/people/teams';
import { openDatabase } from '../runtime/database';

/**
 * A gateway key of a person and a team, and the gateway's own service token. With `everything` the
 * key has a budget and an agent, and the agent a cap; none of them is ever reached.
 */
export async function seedKeys(url: string, org_id: string, name = 'first', everything = false) {
  const db = openDatabase(url, 1);
  const person = { name: `Member ${name}`, role: 'member' as const };
  const { user_id } = await members.add(db, org_id, person, true);
  const { id: team_id } = await organizations.createTeam(db, org_id, `Team ${name}`);
  await teams.add(db, { org_id, team_id, user_id });
  const owner = { org_id, user_id, team_id };
  const bounds = everything
    ? { agent_id: await cappedAgent(db, org_id), max_budget_nanos: String(10n ** 18n) }
    : {};
  const gateway = await issue(db, 'gateway', { ...owner, ...bounds });
  const control_plane = await issue(db, 'access', { scopes: ['control_plane'] });
  await db.destroy();
  return {
    gateway: gateway.key,
    gateway_key_id: gateway.id,
    control_plane: control_plane.key,
    /** Whose calls those of the gateway key are, as its reserves say it. */
    caller: {
      user_id,
      team_id,
      ...('agent_id' in bounds ? { agent_id: bounds.agent_id } : {}),
      key_id: gateway.id,
      secret_id: gateway.secret_id,
    },
  };
}

/** Without the domain's checks, which may need more than the tables of an older version have. */
async function issue(db: Knex, token_type: TokenType, owner: object) {
  const row = { name: `key ${randomUUID()}`, token_type, created_by: 'bench', ...owner };
  const [{ id }] = await db('tokens').insert(row).returning('id');
  const key = await newKey(token_type);
  const secret = { token_id: id, hash: await sha256(key), prefix: key.slice(0, 12) };
  const [made] = await db('token_secrets').insert(secret).returning('id');
  return { id: id as string, secret_id: made.id as string, key };
}

async function cappedAgent(db: Knex, org_id: string): Promise<string> {
  const { id: agent_id } = await organizations.createAgent(db, org_id, 'Agent');
  await constraints.create(
    db,
    { org_id, agent_id },
    {
      constraint_type: 'cost',
      provider: 'openai',
      model_pattern: 'gpt-4o*',
      max_value: 1_000_000,
      interval: 'month',
      enforcement_mode: 'reject',
    },
  );
  return agent_id;
}

/** Six tiers that nobody reaches, and a pack that finds nothing. */
export function allOn(key_id: string) {
  const scope = { rpm: 100_000_000, tpm: 100_000_000_000, max_parallel_requests: 100_000 };
  return {
    rate_limits: {
      per_key: scope,
      per_user: scope,
      per_team: scope,
      global: scope,
      ip: { enabled: true, rpm: 100_000_000 },
    },
    consumer_groups: [{ name: 'bench', rate_limits: scope, keys: [key_id] }],
    pack: 'bench',
    policies: { chain: ['agent-firewall', 'dlp-filter'] },
    policy: {
      'agent-firewall': { tools: { deny: ['shell*'] } },
      'dlp-filter': { blocked_terms: ['project nightfall'], detect_patterns: ['credit_card'] },
    },
  };
}
