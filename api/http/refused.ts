import * as events from '../../domain/events';
import { newId } from '../../domain/ids';
import type { Db } from '../../domain/sql';
import type { Logger } from '../../runtime/log';
import { createRefusalCounts } from '../../runtime/refusal-counts';
import type { Principal } from './access';

/** What somebody lacked a right for. */
interface Refused {
  principal: Principal;
  method: string;
  /** The route, without ids. */
  path: string;
  request_id: string;
}

/**
 * Writes `request.refused` for people and keys that lack a right, beside the request, which does
 * not wait for it. A flood of them is a few events.
 */
export function createRefused(db: Db, log: Logger) {
  const counts = createRefusalCounts();
  return {
    tell({ principal, method, path, request_id }: Refused): void {
      const { id, org_id, user_id } = principal;
      const group = org_id ?? events.PLATFORM_STREAM;
      const route = `${method} ${path}`;
      const count = counts.take(group, `${id} ${route}`);
      if (count === undefined) return;
      const event: events.GatewayEvent = {
        id: newId('evt'),
        org_id: group,
        type: 'request.refused',
        action: 'refused',
        trace_label: request_id,
        payload: {
          ...{ code: 'permission_denied', count, route, user_id },
          key_id: id === user_id ? null : id,
        },
      };
      events
        .record(db, [event])
        .catch((err) => log.warn({ err }, 'a refusal could not be told of'));
    },
  };
}

export type RefusedRequests = ReturnType<typeof createRefused>;
