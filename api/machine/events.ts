import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as events from '../../domain/events';
import * as answers from '../answers/events';
import { controlPlane } from '../http/access';
import { id } from '../http/fields';
import { type Ctx, route } from '../http/route';

/** An event of a gateway. */
const gatewayEvent = z.strictObject({
  id: z
    .string()
    .regex(/^evt_[0-9a-f]{32}$/, 'must be evt_ and 32 hex digits, the first 12 its time'),
  org_id: id,
  type: z.enum(events.gatewayTypes),
  action: id.nullish(),
  agent_id: id.nullish(),
  request_id: id.nullish(),
  trace_label: id.nullish(),
  payload: z.record(z.string(), z.unknown()).refine(isPlain, {
    message: 'may nest 16 levels, hold 32 kB, and no key that ends in _nanos',
  }),
});
/** As many as one call takes. */
export const gatewayEvents = z.array(gatewayEvent).min(1).max(500);
const batch = z.strictObject({ items: gatewayEvents });

/** Payloads are shown as they are: keys of money in nanos are the control plane's own. */
function isPlain(payload: unknown): boolean {
  return isPlainValue(payload, 0) && JSON.stringify(payload).length <= 32_768;
}

function isPlainValue(value: unknown, depth: number): boolean {
  if (depth > 16) return false;
  if (typeof value !== 'object' || value === null) return true;
  for (const key of Object.keys(value)) {
    if (key.endsWith('_nanos')) return false;
    if (!isPlainValue((value as Record<string, unknown>)[key], depth + 1)) return false;
  }
  return true;
}

export const gatewayEventRoutes = [
  route({
    method: 'post',
    path: '/v1/gateway/events',
    access: controlPlane,
    input: batch,
    handler: record,
    summary: 'Events of a gateway; each id is written once.',
    answer: answers.recorded,
  }),
];

// A gateway keeps unsent events for a while; one older than a week comes from a broken clock.
const AGE_MS_MAX = 7 * 86_400_000;
const AHEAD_MS_MAX = 60_000;

/** Throws 422 for an id whose time cannot be; `at` names the list. */
export function checkTimes(items: readonly events.GatewayEvent[], list: string): void {
  const now = Date.now();
  for (const [at, { id: event_id }] of items.entries()) {
    const param = `${list}.${at}.id`;
    const age_ms = now - events.timeOfId(event_id, param).getTime();
    if (age_ms <= AGE_MS_MAX && age_ms >= -AHEAD_MS_MAX) continue;
    throw new AppError('invalid_field', `${param} names a time that is not of the last 7 days.`, {
      param,
    });
  }
}

async function record({ db }: Ctx, { items }: z.infer<typeof batch>) {
  checkTimes(items, 'items');
  return { recorded: await events.record(db, items) };
}
