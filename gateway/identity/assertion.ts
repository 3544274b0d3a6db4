import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../../domain/errors';
import { type Identity, SUBJECT_MAX } from '../../domain/people/identity';
import { isKept } from '../../domain/texts';
import type { VerifyJwt } from '../../runtime/jwt';
import type { Settings } from '../config/settings';
import { bearer_form, digestOf, type Given, LABEL_MAX, type Prover } from './credentials';
import { type Answer, rememberedUntil } from './memory';

/**
 * A JWT of the configured issuer: `sub` is the user, by id or by what was bound to it; `kt_key_id`
 * and `kt_team_id` may name a gateway key of that user and a team.
 */
export function byAssertion(identity: Settings['identity'], given: Given): Prover {
  const { org_id = '', issuer = '', audience = '', jwks_url = '', subject = 'user_id' } = identity;
  const verify = given.identities.verifierOf({ issuer, audience, jwks_url });
  // Another configuration may take the same assertion for another person, or not at all.
  const of = `${org_id} ${issuer} ${audience} ${jwks_url} ${subject} `;
  const from = { ...given, verify, org_id, bound_by: subject === 'bound' ? issuer : undefined };
  return {
    who({ headers }) {
      const jwt = bearerOf(headers);
      return given.identities.who(digestOf(of + jwt), () => identityOf(from, jwt));
    },
    confirm: async ({ headers }) => (await identityOf(from, bearerOf(headers))).identity,
  };
}

interface From extends Given {
  verify: VerifyJwt;
  org_id: string;
  /** The issuer whose subjects were bound to users; undefined if a subject is a user's id. */
  bound_by: string | undefined;
}

async function identityOf(from: From, jwt: string): Promise<Answer> {
  const { sub, exp, kt_key_id, kt_team_id } = await from.verify(jwt);
  // What is no id of ours may be as long as its issuer may make it.
  claim(sub, 'sub', from.bound_by === undefined ? LABEL_MAX : SUBJECT_MAX);
  const key_id = claim(kt_key_id, 'kt_key_id');
  const team_id = claim(kt_team_id, 'kt_team_id');
  // Asked of each route's callers: not every route holds money, where the ledger would refuse them.
  const { user_id, key } = await from.control_plane.person({
    org_id: from.org_id,
    subject: sub,
    ...(from.bound_by === undefined ? {} : { issuer: from.bound_by }),
    ...(key_id === null ? {} : { key_id }),
    ...(team_id === null ? {} : { team_id }),
  });
  if (key != null && key.team_id !== null && team_id !== null && key.team_id !== team_id)
    throw forbidden('The key that the claim "kt_key_id" names is bound to another team.');
  const identity: Identity = {
    proof: 'signed_assertion',
    org_id: from.org_id,
    key_id,
    // The key's own secrets may change; the assertion names the key.
    secret_id: null,
    user_id,
    team_id: team_id ?? key?.team_id ?? null,
    agent_id: key?.agent_id ?? null,
    allowed_models: key?.allowed_models ?? null,
    rate_limits: key?.rate_limits,
    include_cost: key?.include_cost,
  };
  return { identity, ...rememberedUntil(exp * 1_000) };
}

function forbidden(message: string): AppError {
  return new AppError('permission_denied', message);
}

function claim(value: unknown, name: string, longest = LABEL_MAX): string | null {
  if (value === undefined || value === null) return null;
  const is_text = typeof value === 'string' && value !== '' && value.length <= longest;
  if (is_text && isKept(value)) return value;
  throw new AppError('invalid_credential', `The claim ${name} of this assertion is not an id.`);
}

/** The form of a JWT: three parts. */
export const jwt_form = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const JWT_MAX_CHARACTERS = 16_384;

/**
 * The JWT of a request: as bearer, or in x-api-key as Anthropic's older clients send what they are
 * given.
 */
function bearerOf({ authorization = '', 'x-api-key': api_key }: IncomingHttpHeaders): string {
  const given = [bearer_form.exec(authorization)?.[1], api_key].find((one) =>
    jwt_form.test(String(one)),
  );
  if (typeof given === 'string' && given.length <= JWT_MAX_CHARACTERS) return given;
  throw new AppError(
    'invalid_credential',
    'Send a signed assertion of your identity provider: "Authorization: Bearer <JWT>".',
  );
}
