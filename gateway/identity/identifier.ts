import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../../domain/errors';
import type { Identity } from '../../domain/people/identity';
import { invalidKey, isWellFormed } from '../../domain/people/keys';
import { isKept } from '../../domain/texts';
import type { VerifyJwt } from '../../runtime/jwt';
import type { Settings } from '../config/settings';
import type { ControlPlane } from '../control-plane/client';
import { type Identities, rememberedUntil } from './memory';

/** How callers of one configuration prove who they are. */
export interface Identifier {
  /** The caller, from memory if that is fresh. Throws `invalid_credential`. */
  who(head: Head): Identity | Promise<Identity>;
  /** The same, asked now: a key revoked a moment ago is refused. */
  confirm(head: Head): Promise<Identity>;
}

/** What is read of a request to know its caller. */
interface Head {
  readonly headers: IncomingHttpHeaders;
  readonly socket: { readonly remoteAddress?: string | undefined };
}

export function createIdentifier(
  settings: Pick<Settings, 'identity'> & Headers,
  given: Given,
): Identifier {
  const { mode } = settings.identity;
  if (mode === 'gateway_key') return byKey(given);
  return mode === 'header_soft' ? byHeader(settings) : byAssertion(settings, given);
}

/** The headers in which header_soft reads the caller. */
interface Headers {
  user_rate_limit?: { header: string };
  team_rate_limit?: { header: string };
}

/** The owner of a call: its key or, if none came with it, the person whom its headers name. */
export function ownerOf({ key_id, user_id }: Identity): string {
  return key_id ?? `user ${user_id}`;
}

const gateway_key = /^svc_gk_[0-9A-Za-z]{20,100}$/;

/**
 * A gateway key, as bearer or in x-api-key. What it is bound to says who calls; no header of the
 * client changes that.
 */
function byKey({ identities, control_plane, addressOf }: Given): Identifier {
  const ask = async (key: string, head: Head): Promise<Identity> => {
    // A guess is known by its checksum, and costs the control plane nothing.
    if (!(await isWellFormed(key))) throw invalidKey();
    return identities.ask(addressOf(head), digestOf(key), async () => ({
      ...(await control_plane.verify({ key })),
      proof: 'gateway_key',
    }));
  };
  return {
    who: (head) => {
      const key = keyOf(head.headers);
      return identities.who(digestOf(key), async () => ({ identity: await ask(key, head) }));
    },
    async confirm(head) {
      const key = keyOf(head.headers);
      try {
        return await ask(key, head);
      } catch (error) {
        if ((error as AppError).code === 'invalid_credential') identities.forget(digestOf(key));
        throw error;
      }
    },
  };
}

/**
 * Anybody who reaches the gateway may call; the user and team of the headers are counted, never
 * paid from.
 */
function byHeader({
  identity: { org_id = '' },
  user_rate_limit: { header: user_header } = { header: 'X-User-Id' },
  team_rate_limit: { header: team_header } = { header: 'X-Team-Id' },
}: Pick<Settings, 'identity'> & Headers): Identifier {
  const who = ({ headers }: Head): Identity => ({
    proof: 'header_soft',
    org_id,
    key_id: null,
    secret_id: null,
    user_id: labelOf(headers, user_header),
    team_id: labelOf(headers, team_header),
    agent_id: null,
    allowed_models: null,
  });
  return { who, confirm: async (head) => who(head) };
}

interface Given {
  identities: Identities['inTurn'];
  control_plane: ControlPlane;
  /** Where a request comes from, by the configuration's proxies. */
  addressOf: (head: Head) => string;
}

/**
 * A JWT of the configured issuer: `sub` is the user, `kt_key_id` and `kt_team_id` may name a
 * gateway key and a team.
 */
function byAssertion({ identity }: Pick<Settings, 'identity'>, given: Given): Identifier {
  const { org_id = '', issuer = '', audience = '', jwks_url = '' } = identity;
  const verify = given.identities.verifierOf({ issuer, audience, jwks_url });
  // Another configuration may take the same assertion for another organization, or not at all.
  const of = `${org_id} ${issuer} ${audience} ${jwks_url} `;
  const ask = (jwt: string) => assertion({ ...given, verify, org_id }, jwt);
  return {
    who({ headers }) {
      const jwt = bearerOf(headers);
      return given.identities.who(digestOf(of + jwt), () => ask(jwt));
    },
    confirm: async ({ headers }) => (await ask(bearerOf(headers))).identity,
  };
}

async function assertion(
  { verify, control_plane, org_id }: Given & { verify: VerifyJwt; org_id: string },
  jwt: string,
): Promise<{ identity: Identity; until: number }> {
  const { sub, exp, kt_key_id, kt_team_id } = await verify(jwt);
  claim(sub, 'sub');
  const key_id = claim(kt_key_id, 'kt_key_id');
  const team_id = claim(kt_team_id, 'kt_team_id');
  const key: Partial<Identity> = key_id ? await control_plane.verify({ org_id, key_id }) : {};
  const { agent_id = null, allowed_models = null, rate_limits } = key;
  if (key.user_id != null && key.user_id !== sub) throw foreignKey('user');
  if (key.team_id != null && team_id !== null && key.team_id !== team_id) throw foreignKey('team');
  const identity: Identity = {
    proof: 'signed_assertion',
    org_id,
    key_id,
    // The key's own secrets may change; the assertion names the key.
    secret_id: null,
    user_id: sub,
    team_id: team_id ?? key.team_id ?? null,
    agent_id,
    allowed_models,
    rate_limits,
  };
  return { identity, until: rememberedUntil(exp * 1_000) };
}

function foreignKey(whose: string): AppError {
  return new AppError(
    'invalid_credential',
    `The key that this assertion names is bound to another ${whose}.`,
  );
}

function claim(value: unknown, name: string): string | null {
  if (value === undefined || value === null) return null;
  const is_text = typeof value === 'string' && value !== '' && value.length <= LABEL_MAX;
  if (is_text && isKept(value)) return value;
  throw new AppError('invalid_credential', `The claim ${name} of this assertion is not an id.`);
}

/** The gateway key of a request: as bearer, or in x-api-key as Anthropic's clients send it. */
function keyOf(headers: IncomingHttpHeaders): string {
  const { authorization = '', 'x-api-key': api_key } = headers;
  const bearer = bearer_form.exec(authorization)?.[1];
  const given = [bearer, api_key].find((one) => gateway_key.test(String(one)));
  if (typeof given === 'string') return given;
  throw new AppError(
    'invalid_credential',
    bearer === undefined && api_key === undefined
      ? 'Send a gateway key: "Authorization: Bearer svc_gk_...".'
      : /^svc_gk_/.test(String(bearer ?? api_key))
        ? 'This gateway key is not whole: it was cut or mistyped.'
        : 'This is not a gateway key. Gateway keys start with svc_gk_.',
  );
}

const bearer_form = /^bearer\s+(\S+)\s*$/i;
const jwt_form = /^[\w-]+\.[\w-]+\.[\w-]+$/;
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

const LABEL_MAX = 200;

function labelOf(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name.toLowerCase()];
  if (typeof value !== 'string' || value === '') return null;
  if (value.length <= LABEL_MAX) return value;
  throw new AppError('invalid_field', `${name} is longer than ${LABEL_MAX} characters.`, {
    param: name,
  });
}

function digestOf(key: string): string {
  return hash('sha256', key, 'base64');
}
