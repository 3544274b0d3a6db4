import { isAppError } from '../../domain/errors';
import { cut, keepable } from '../../domain/texts';
import type { Call } from './call';

/** The refusals that somebody who governs wants to know of, by their codes. */
const telling = new Set([
  'model_not_allowed',
  'permission_denied',
  'key_budget_exceeded',
  'usage_constraint_exceeded',
  'not_team_member',
  'open_tickets_exceeded',
  'organization_suspended',
]);

const MODEL_CHARACTERS_MAX = 200;

/**
 * Emits `request.refused` for a call of a known caller that was refused a model, a budget, a cap or
 * a right. A flood of them is a few events. Who sends the headers of header_soft could name any
 * organization and person, so all of these callers count as one.
 */
export function tellRefused(call: Call, error: unknown): void {
  const { identity, gateway, family, request } = call;
  if (identity === undefined || !isAppError(error) || !telling.has(error.code)) return;
  const is_soft = identity.proof === 'header_soft';
  const group = is_soft ? 'header_soft' : identity.org_id;
  const who = is_soft ? '' : (identity.key_id ?? identity.user_id ?? '');
  // One text that cannot be kept would spoil the events of all that travel with it.
  const model = request === undefined ? null : keepable(cut(request.model, MODEL_CHARACTERS_MAX));
  const { request_id, trace_label, agent_id } = call;
  gateway.refusals.count(group, `${error.code} ${who}`, (count, is_rest) => {
    const of = is_rest ? { of_several: true } : {};
    const payload = { code: error.code, count, family: family.name, model, ...of };
    gateway.events.emit(
      { identity, request_id, trace_label, agent_id },
      { type: 'request.refused', action: 'refused', payload },
    );
  });
}
