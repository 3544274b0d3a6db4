import { AppError, fullOf } from '../../domain/errors';
import { fairShare } from '../../domain/shares';

const STREAMS = 'event streams';
const STREAMS_MAX = 500;
const STREAMS_PER_ORG_MAX = 50;

interface Taken {
  all: number;
  by_key: Map<string, number>;
}

/** The places of one process for event streams: in all, of an organization, of a key or person. */
export function createEventPlaces() {
  const taken = new Map<string, Taken>();

  function checkRoom(org_id: string, key: string): void {
    const all = [...taken.values()].reduce((sum, organization) => sum + organization.all, 0);
    const of_org = taken.get(org_id)?.all ?? 0;
    const of_key = taken.get(org_id)?.by_key.get(key) ?? 0;
    if (all >= STREAMS_MAX)
      throw new AppError(
        'overloaded',
        'This API has as many event streams open as it takes. Repeat the request later, or list the events: GET /v1/events.',
      );
    const org_max = Math.min(STREAMS_PER_ORG_MAX, fairShare(STREAMS_MAX, all - of_org));
    if (of_org >= org_max) throw fullOf(STREAMS, 'organization', { count: of_org, limit: org_max });
    const key_max = Math.min(org_max, fairShare(STREAMS_PER_ORG_MAX, of_org - of_key));
    if (of_key >= key_max) throw fullOf(STREAMS, 'key', { count: of_key, limit: key_max });
  }

  return {
    /** Takes a place, or throws. The function that it returns gives the place back. */
    take(org_id: string, key: string): () => void {
      checkRoom(org_id, key);
      const organization = taken.get(org_id) ?? { all: 0, by_key: new Map() };
      taken.set(org_id, organization);
      const { by_key } = organization;
      organization.all += 1;
      by_key.set(key, (by_key.get(key) ?? 0) + 1);
      return () => {
        organization.all -= 1;
        by_key.set(key, (by_key.get(key) ?? 1) - 1);
        if (by_key.get(key) === 0) by_key.delete(key);
        if (organization.all === 0) taken.delete(org_id);
      };
    },
  };
}
