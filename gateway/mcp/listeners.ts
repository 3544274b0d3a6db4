import { AppError, fullOf } from '../../domain/errors';
import type { Identified } from '../call/call';
import { shareOf } from '../config/shares';
import { ownerOf } from '../identity/identifier';

const CONFIRM_MS = 25_000;
const STREAMS = 'streams of notices';

/**
 * A stream of notices may never end: there are so many at most, and each lasts as long as its key
 * is valid.
 */
export function listen(call: Identified): void {
  checkRoom(call);
  call.is_listening = true;
  const { keep_alive_ms } = call.snapshot.settings.mcp;
  const every_ms = Math.min(CONFIRM_MS, keep_alive_ms);
  const timer = setInterval(() => void endIfRefused(call), every_ms).unref();
  call.onEnd(() => clearInterval(timer));
}

function checkRoom(call: Identified): void {
  const { mcp, identity: proofs } = call.snapshot.settings;
  const { listeners_max, listeners_per_key_max } = mcp;
  const key = ownerOf(call.identity);
  let all = 0;
  let of_org = 0;
  let own = 0;
  for (const { is_listening, identity } of call.gateway.calls) {
    if (is_listening !== true || identity === undefined) continue;
    all += 1;
    if (identity.org_id === call.identity.org_id) of_org += 1;
    if (ownerOf(identity) === key) own += 1;
  }
  if (all >= listeners_max) {
    throw new AppError('overloaded', 'This gateway has as many streams of notices as it takes.');
  }
  if (own >= listeners_per_key_max)
    throw fullOf(STREAMS, 'key', { count: own, limit: listeners_per_key_max });
  const places = { all: listeners_max, held_by_others: all - of_org };
  const share = shareOf(places, mcp.listeners_per_org_max, proofs);
  if (of_org >= share) throw fullOf(STREAMS, 'organization', { count: of_org, limit: share });
}

async function endIfRefused(call: Identified): Promise<void> {
  try {
    await call.gateway.snapshot.identifier.confirm(call.ctx.req);
  } catch (error) {
    if ((error as AppError).status === 401) call.abort?.(error as AppError);
  }
}
