import { AppError, isAppError } from '../../domain/errors';
import type { Call, Stage } from '../call/call';

/** The stage that says who calls, before anything else of the request is looked at. */
export async function identify(call: Call): Promise<void> {
  const who = call.snapshot.identifier.who(call.ctx.req.headers);
  call.identity = who instanceof Promise ? await who : who;
}

/**
 * Before a refusal leaves that no reserve has confirmed: a key revoked a moment ago is told so, whatever else is wrong.
 */
export async function confirmKey({ ctx, snapshot }: Pick<Call, 'ctx' | 'snapshot'>): Promise<void> {
  try {
    await snapshot.identifier.confirm(ctx.req.headers);
  } catch (error) {
    if ((error as AppError).code === 'invalid_credential') throw error;
  }
}

// The claims of an assertion, by what the ledger calls them.
const claims: Record<string, string> = { user_id: 'sub', team_id: 'kt_team_id' };

/** Says of whom the ledger does not know what the caller can look up: the claim of the assertion that names them. */
export function namedByClaim(reserve: Stage): Stage {
  return async (call) => {
    try {
      await reserve(call);
    } catch (error) {
      throw call.identity.proof === 'signed_assertion' ? strangerIn(error) : error;
    }
  };
}

function strangerIn(error: unknown): unknown {
  if (!isAppError(error) || error.code !== 'invalid_field') return error;
  const name = claims[error.details.param ?? ''];
  if (name === undefined) return error;
  return new AppError(
    'permission_denied',
    `The claim "${name}" of this assertion names nobody of the organization that this gateway serves.`,
  );
}
