import type { Context } from 'koa';
import type { Identity } from '../domain/people/identity';
import type { Gateway } from './call/call';
import { leftUnder, type Standing } from './limits/standing';
import type { Shape } from './providers/kind';
import { countUnpriced, emitUnpriced, limitAsking } from './stages/limit';

/**
 * GET /v1/key: how the key that asks stands. It costs nothing, counts as a request, and asks the
 * control plane each time.
 */
export async function showKey(ctx: Context, gateway: Gateway, shapes: ReadonlySet<Shape>) {
  const address = countUnpriced(ctx, gateway);
  const { snapshot, control_plane } = gateway;
  let limits: Standing[];
  let identity: Identity;
  try {
    // Counted before anybody is asked: a key that polls ahead of its limit costs others nothing.
    const known = await snapshot.identifier.who(ctx.req);
    limits = await limitAsking(ctx, gateway, { identity: known, address });
    identity = await snapshot.identifier.confirm(ctx.req);
  } finally {
    emitUnpriced(ctx, gateway, address);
  }
  const { org_id, key_id, secret_id, agent_id, allowed_models } = identity;
  // What only headers say of somebody shows nobody's money.
  const { user_id, team_id } = identity.proof === 'header_soft' ? nobody : identity;
  const asked = { org_id, key_id, secret_id, user_id, team_id };
  const { key, currency, budgets, wallet } = await control_plane.funds(asked);
  ctx.body = {
    object: 'key',
    ...{ id: key?.id ?? null, name: key?.name ?? null, expires_at: key?.expires_at ?? null },
    ...{ org_id, user_id, team_id, agent_id, identity_proof_method: identity.proof },
    include_cost: identity.include_cost === true,
    models: snapshot.providers.models(shapes, allowed_models).map(({ model }) => model),
    currency,
    budgets,
    wallet,
    limits: limits.map(limitOf),
  };
}

const nobody = { user_id: null, team_id: null };

function limitOf({ scope, limit_type, limit, used, reset_at }: Standing) {
  const is_window = limit_type !== 'parallel';
  return {
    scope,
    limit_type,
    limit,
    remaining: leftUnder(limit, used),
    // Slots come back as calls end.
    resets_at: is_window ? new Date(reset_at).toISOString() : null,
  };
}
