import { randomUUID } from 'node:crypto';
import * as tokens from '../../domain/people/tokens';
import type { Db } from '../../domain/sql';

/** Issues a key: an access key without scopes by default. */
export function issueKey(
  db: Db,
  org_id: string | null,
  more: Partial<tokens.NewToken> = {},
): Promise<{ id: string; key: string }> {
  return tokens.issue(db, {
    org_id,
    name: `key ${randomUUID()}`,
    token_type: 'access',
    scopes: [],
    allowed_models: null,
    user_id: null,
    team_id: null,
    agent_id: null,
    max_budget_nanos: null,
    expires_at: null,
    created_by: 'test',
    ...more,
  });
}

/** The same, for a caller who sends the key. */
export async function makeKey(
  db: Db,
  org_id: string | null,
  more: Partial<tokens.NewToken> = {},
): Promise<string> {
  return (await issueKey(db, org_id, more)).key;
}

/** A gateway key, for a caller of the ledger, which knows keys by their ids. */
export async function makeKeyId(
  db: Db,
  org_id: string,
  more: Partial<tokens.NewToken> = {},
): Promise<string> {
  return (await issueKey(db, org_id, { token_type: 'gateway', ...more })).id;
}

export function platformKey(db: Db): Promise<string> {
  return makeKey(db, null, { scopes: ['platform:admin'] });
}

export function gatewayToken(db: Db): Promise<string> {
  return makeKey(db, null, { scopes: ['control_plane'] });
}
