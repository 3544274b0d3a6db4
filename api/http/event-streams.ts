import { AppError } from '../../domain/errors';

const STREAMS_MAX = 500;
const STREAMS_PER_ORG_MAX = 50;

/** The event streams that this API has open, counted by organization. */
export type EventStreams = ReturnType<typeof createEventStreams>;

export function createEventStreams() {
  const open = new Map<string, number>();
  return {
    /** Takes a place for a stream, or throws 503; returns how to give the place back. */
    takePlace(org_id: string): () => void {
      const all = [...open.values()].reduce((sum, count) => sum + count, 0);
      const own = open.get(org_id) ?? 0;
      if (all >= STREAMS_MAX || own >= STREAMS_PER_ORG_MAX)
        throw new AppError('overloaded', 'Too many event streams are open here.');
      open.set(org_id, own + 1);
      return () => {
        const left = (open.get(org_id) ?? 1) - 1;
        if (left > 0) open.set(org_id, left);
        else open.delete(org_id);
      };
    },
  };
}
