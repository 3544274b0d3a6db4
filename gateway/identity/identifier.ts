import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../../domain/errors';
import type { Identity } from '../../domain/people/identity';
import { invalidKey, isWellFormed } from '../../domain/people/keys';
import type { Proof } from '../../domain/trace';
import { proofsOf } from '../config/identity';
import type { Settings } from '../config/settings';
import { byAssertion, jwt_form } from './assertion';
import {
  bearer_form,
  digestOf,
  type Given,
  type Head,
  type Identifier,
  LABEL_MAX,
  type Prover,
} from './credentials';

/** Makes what knows the callers of a configuration, by the proofs that it takes. */
export function createIdentifier(
  settings: Pick<Settings, 'identity'> & Headers,
  given: Given,
): Identifier {
  const proofs = proofsOf(settings.identity);
  const [first = 'gateway_key'] = proofs;
  const make: Record<Proof, () => Prover> = {
    gateway_key: () => byKey(given),
    header_soft: () => byHeader(settings),
    signed_assertion: () => byAssertion(settings.identity, given),
  };
  const provers = new Map(proofs.map((proof) => [proof, make[proof]()]));
  const only = provers.get(first) as Prover;
  if (provers.size === 1) return { ...only, proofOf: () => first };
  // The form of the bearer says which proof it is; one that fails is tried as no other.
  const proofOf = ({ headers }: Pick<Head, 'headers'>) => formOf(headers) ?? first;
  const proverFor = (head: Head): Prover => {
    const proof = formOf(head.headers);
    if (proof === undefined) throw formless();
    return provers.get(proof) as Prover;
  };
  return {
    who: (head) => proverFor(head).who(judged(head)),
    confirm: async (head) => proverFor(head).confirm(judged(head)),
    proofOf,
  };
}

/**
 * The proof that a credential has the form of: that of the bearer or, without one, of x-api-key.
 */
function formOf(headers: IncomingHttpHeaders): 'gateway_key' | 'signed_assertion' | undefined {
  const given = bearer_form.exec(headers.authorization ?? '')?.[1] ?? headers['x-api-key'];
  if (typeof given !== 'string') return undefined;
  if (given.startsWith('svc_')) return 'gateway_key';
  return jwt_form.test(given) ? 'signed_assertion' : undefined;
}

/** A request without the key beside its bearer, whose form has said which proof it is. */
function judged(head: Head): Head {
  const { 'x-api-key': beside, ...headers } = head.headers;
  if (beside === undefined || !bearer_form.test(head.headers.authorization ?? '')) return head;
  return { headers, socket: head.socket };
}

function formless(): AppError {
  return new AppError(
    'invalid_credential',
    'This is no credential of ours. Send a gateway key (svc_gk_...) or a token of your identity provider: "Authorization: Bearer ...".',
  );
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
function byKey({ identities, control_plane, addressOf }: Given): Prover {
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
}: Pick<Settings, 'identity'> & Headers): Prover {
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

function labelOf(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name.toLowerCase()];
  if (typeof value !== 'string' || value === '') return null;
  if (value.length <= LABEL_MAX) return value;
  throw new AppError('invalid_field', `${name} is longer than ${LABEL_MAX} characters.`, {
    param: name,
  });
}
