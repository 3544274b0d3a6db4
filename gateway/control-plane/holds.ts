import type { ControlPlane, Reservation } from './client';

const SWEEP_MS = 250;
const LIFE_MIN_MS = 1_500;
// The most holds that the control plane takes in one call; the rest goes with the next sweep.
const EXTENDS_MAX = 1_000;

/** The open holds, extended every third of their life while their streams run. */
export type Holds = ReturnType<typeof openHolds>;

interface Hold {
  org_id: string;
  reservation_id: string;
  life_ms: number;
  extend_at: number;
}

export function openHolds(control_plane: ControlPlane) {
  const holds = new Map<string, Hold>();
  const sweep = async (): Promise<void> => {
    const now = performance.now();
    const due = [...holds.values()].filter((hold) => hold.extend_at <= now).slice(0, EXTENDS_MAX);
    for (const hold of due) hold.extend_at = now + hold.life_ms / 3;
    if (due.length === 0) return;
    const items = due.map(({ org_id, reservation_id }) => ({ org_id, reservation_id }));
    for (const { reservation_id, status } of await control_plane.extend(items)) {
      if (status !== 'extended') holds.delete(reservation_id);
    }
  };
  const timer = setInterval(() => void sweep(), SWEEP_MS).unref();
  return {
    /** Extends a hold until the returned function is called. */
    keep(org_id: string, { reservation_id, expires_at }: Reservation): () => void {
      const life_ms = Math.max(Date.parse(expires_at) - control_plane.now(), LIFE_MIN_MS);
      const extend_at = performance.now() + life_ms / 3;
      holds.set(reservation_id, { org_id, reservation_id, life_ms, extend_at });
      return () => void holds.delete(reservation_id);
    },
    close: (): void => clearInterval(timer),
  };
}
