import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../domain/errors';
import type { Call } from './call';
import type { ControlPlane, Identity } from './control-plane';

const KNOWN_MAX = 10_000;
const KNOWN_MS = 30_000;
const gateway_key = /^svc_gk_[0-9A-Za-z]{20,100}$/;

/** Remembers who a key is, never that it is valid: that is asked with every reserve. */
export interface Identities {
  who(key: string): Identity | Promise<Identity>;
  forget(key: string): void;
}

export function openIdentities(control_plane: ControlPlane): Identities {
  const known = new Map<string, { who: Identity | Promise<Identity>; until: number }>();
  const ask = (digest: string, key: string): Promise<Identity> => {
    // Calls that come with the key while it is asked about wait for the same answer.
    const asked = control_plane.verify(key).then(
      (who) => {
        remember(known, digest, who);
        return who;
      },
      (error: unknown) => {
        known.delete(digest);
        throw error;
      },
    );
    remember(known, digest, asked);
    return asked;
  };
  return {
    who(key) {
      const digest = digestOf(key);
      const found = known.get(digest);
      if (found !== undefined && found.until > performance.now()) return found.who;
      return ask(digest, key);
    },
    forget: (key) => void known.delete(digestOf(key)),
  };
}

/** The stage that says who calls, before anything else of the request is looked at. */
export async function identify(call: Call): Promise<void> {
  call.key = keyOf(call.ctx.req.headers);
  const who = call.gateway.identities.who(call.key);
  call.identity = who instanceof Promise ? await who : who;
}

/**
 * Before a refusal leaves that no reserve has confirmed: a key revoked a moment ago is told so, whatever else is wrong.
 */
export async function confirmKey({ key, gateway }: Call): Promise<void> {
  try {
    await gateway.control_plane.verify(key);
  } catch (error) {
    if ((error as AppError).code !== 'invalid_credential') return;
    gateway.identities.forget(key);
    throw error;
  }
}

/** The gateway key of a request: as bearer, or in x-api-key as Anthropic's clients send it. */
export function keyOf(headers: IncomingHttpHeaders): string {
  const { authorization = '', 'x-api-key': api_key } = headers;
  const bearer = /^bearer\s+(\S+)\s*$/i.exec(authorization)?.[1];
  const given = [bearer, api_key].find((one) => gateway_key.test(String(one)));
  if (typeof given === 'string') return given;
  throw new AppError(
    'invalid_credential',
    bearer === undefined && api_key === undefined
      ? 'Send a gateway key: "Authorization: Bearer svc_gk_...".'
      : 'This is not a gateway key. Gateway keys start with svc_gk_.',
  );
}

function remember(
  known: Map<string, { who: Identity | Promise<Identity>; until: number }>,
  digest: string,
  who: Identity | Promise<Identity>,
): void {
  known.delete(digest);
  known.set(digest, { who, until: performance.now() + KNOWN_MS });
  const oldest = known.keys().next();
  if (known.size > KNOWN_MAX && oldest.value !== undefined) known.delete(oldest.value);
}

function digestOf(key: string): string {
  return hash('sha256', key, 'base64');
}
