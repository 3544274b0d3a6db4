import { AppError, isAppError } from '../../domain/errors';
import { fundsOf, type KeyFunds } from '../../domain/ledger/views/key-funds';
import { livingMember } from '../../domain/people/identities';
import type {
  CallerBody,
  KeyOwner,
  Person,
  PersonBody,
  VerifyBody,
} from '../../domain/people/identity';
import * as tokens from '../../domain/people/living-tokens';
import { personOf } from '../../domain/people/sign-in';
import * as teams from '../../domain/people/teams';
import { requireGatewayVersion } from '../http/access';
import type { Ctx } from '../http/route';

// Who calls a gateway.

/** The owner of a gateway key. */
export async function verify({ keys, db, http }: Ctx, given: VerifyBody): Promise<KeyOwner> {
  requireGatewayVersion(http);
  const { key, org_id: of_org = '', key_id: by_id = '' } = given;
  const found = key ? keys.check(key) : tokens.findLivingById(db, of_org, by_id);
  const token = await found.catch((error) => {
    // By the field the gateway distinguishes a refused key from a refusal of its own credential.
    throw isAppError(error) && error.code === 'invalid_credential'
      ? refusedKey(error.message)
      : error;
  });
  if (token.token_type !== 'gateway') {
    throw refusedKey('This is an access key; the gateway takes keys that start with svc_gk_.');
  }
  return ownerOf(token);
}

/**
 * The user that a subject is bound to, or the member of that id. A key that is named must be a
 * living one of theirs, and a team one that they are in.
 */
export async function person({ db, http }: Ctx, given: PersonBody): Promise<Person> {
  requireGatewayVersion(http);
  const { org_id, issuer, subject, key_id, team_id } = given;
  const user_id =
    issuer === undefined
      ? await livingMember(db, { org_id, user_id: subject })
      : await personOf(db, { org_id, issuer, subject });
  if (team_id !== undefined) await teams.requirePlace(db, { org_id, team_id, user_id });
  if (key_id === undefined) return { user_id, org_id, key: null };
  const token = await tokens.findLivingById(db, org_id, key_id).catch((error) => {
    throw isAppError(error) && error.code === 'invalid_credential' ? notTheirKey() : error;
  });
  if (token.token_type !== 'gateway' || token.user_id !== user_id) throw notTheirKey();
  return { user_id, org_id, key: ownerOf(token) };
}

/** What the caller of a gateway may still spend. */
export async function funds({ db, http }: Ctx, caller: CallerBody): Promise<KeyFunds> {
  requireGatewayVersion(http);
  return fundsOf(db, caller);
}

function ownerOf(token: tokens.LivingToken): KeyOwner {
  const { id: key_id, secret_id, org_id, user_id, team_id, agent_id, allowed_models } = token;
  const { rpm, tpm, max_parallel_requests, include_cost, expires_at } = token;
  const has_limits = (rpm ?? tpm ?? max_parallel_requests) !== null;
  return {
    key_id,
    secret_id,
    org_id,
    user_id,
    team_id,
    agent_id,
    allowed_models,
    ...(has_limits ? { rate_limits: { rpm, tpm, max_parallel_requests } } : {}),
    ...(include_cost ? { include_cost } : {}),
    expires_at,
  };
}

function refusedKey(message: string): AppError {
  return new AppError('invalid_credential', message, { param: 'key' });
}

function notTheirKey(): AppError {
  return new AppError(
    'permission_denied',
    'The claim "kt_key_id" of this assertion names no living gateway key of its person.',
    { param: 'key_id' },
  );
}
