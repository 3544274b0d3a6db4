import { AppError, isAppError } from '../../domain/errors';
import type { Addressed, Begun, Identified } from '../call/call';
import { notTheirKey } from '../control-plane/refusals';

/** The stage that says who calls, before anything else of the request is looked at. */
export async function identify(call: Addressed): Promise<Identified> {
  const who = call.snapshot.identifier.who(call.ctx.req);
  return Object.assign(call, { identity: who instanceof Promise ? await who : who });
}

/** Why a caller who was known a moment ago is not taken any more. */
const ended: readonly string[] = [
  'invalid_credential',
  'permission_denied',
  'not_team_member',
  'organization_suspended',
];

/**
 * Throws if the key was revoked a moment ago: that is what its holder must hear, whatever else is
 * wrong with the request.
 */
export async function confirmKey({
  ctx,
  snapshot,
}: Pick<Begun, 'ctx' | 'snapshot'>): Promise<void> {
  try {
    await snapshot.identifier.confirm(ctx.req);
  } catch (error) {
    if (ended.includes((error as AppError).code)) throw error;
  }
}

// The claims of an assertion, by what the ledger calls them.
const claims = new Map([
  ['user_id', 'sub'],
  ['team_id', 'kt_team_id'],
]);

/**
 * The ledger knows nobody of that name: says so by the claim of the assertion, which is what the
 * caller can look up.
 */
export function strangerIn({ identity }: Identified, error: unknown): unknown {
  if (identity.proof !== 'signed_assertion') return error;
  if (!isAppError(error)) return error;
  // The assertion itself is good; what has ended is the key that it names.
  if (error.code === 'invalid_credential' && identity.key_id !== null) return notTheirKey();
  if (error.code === 'not_team_member')
    return new AppError(
      'not_team_member',
      'The person of this assertion is not in the team that its claim "kt_team_id" names.',
      { param: 'kt_team_id' },
    );
  if (error.code !== 'invalid_field') return error;
  const name = claims.get(error.details.param ?? '');
  if (name === undefined) return error;
  return new AppError(
    'permission_denied',
    `The claim "${name}" of this assertion names nobody of the organization that this gateway serves.`,
  );
}
