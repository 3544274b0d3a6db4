import { timingSafeEqual } from 'node:crypto';
import { AppError } from '../../domain/errors';
import type { Identity } from '../../domain/people/identity';
import type { ControlPlane } from '../control-plane/client';
import { ownerOf } from '../identity/identifier';

/** Whose session at which server. */
interface SessionOwner {
  identity: Identity;
  server: string;
  control_plane: Pick<ControlPlane, 'sign'>;
}

/**
 * The name of a session for its client: the server's own with a signature over whose it is, so that
 * every gateway of this installation knows it without remembering anything.
 */
export function sealSession(session: string, owner: SessionOwner): string {
  return `${session}.${signature(session, owner)}`;
}

/**
 * The server's name of a session; refused to all but the key that opened it, as if there were none.
 */
export function unsealSession(sealed: string, owner: SessionOwner): string {
  const dot = sealed.lastIndexOf('.');
  const session = sealed.slice(0, Math.max(0, dot));
  const given = Buffer.from(sealed.slice(dot + 1));
  const right = Buffer.from(signature(session, owner));
  if (dot > 0 && given.length === right.length && timingSafeEqual(given, right)) return session;
  throw new AppError('session_not_found', 'There is no such session: initialize another one.');
}

function signature(session: string, { identity, server, control_plane }: SessionOwner): string {
  const of = ['mcp session', identity.org_id, ownerOf(identity), server, session];
  return control_plane.sign(JSON.stringify(of));
}
