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
export function openRefused(db: Db, log: Logger) {
  const counts = createRefusalCounts();
  const writing = new Set<Promise<void>>();

  function write(event: events.GatewayEvent): void {
    const done = events
      .record(db, [event])
      .catch((err) => log.warn({ err }, 'a refusal could not be told of'))
      .then(() => void writing.delete(done));
    writing.add(done);
  }

  return {
    tell({ principal, method, path, request_id }: Refused): void {
      const { id, org_id, user_id } = principal;
      const group = org_id ?? events.PLATFORM_STREAM;
      const route = `${method} ${path}`;
      counts.count(group, `${id} ${route}`, (count, is_rest) => {
        const key_id = id === user_id ? null : id;
        write({
          id: newId('evt'),
          org_id: group,
          type: 'request.refused',
          action: 'refused',
          trace_label: request_id,
          payload: {
            ...{ code: 'permission_denied', count, route, user_id, key_id },
            ...(is_rest && { of_several: true }),
          },
        });
      });
    },

    /** Tells of all that was refused, and waits until it is written. */
    async close(): Promise<void> {
      counts.close();
      await Promise.all(writing);
    },
  };
}

export type RefusedRequests = ReturnType<typeof openRefused>;
