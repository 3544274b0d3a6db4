import type { Call } from '../call';
import { ownerOf } from '../identity';

/** How the client wants its call to be paid. */
export interface Payment {
  /** How long the call may wait for money. */
  hold_ms: number;
  /** The cost ticket that the client brings. */
  ticket_id: string | undefined;
}

/** The calls that wait for money on a cost ticket, within the bounds of the configuration. */
export interface HeldCalls {
  /** Takes a place and runs the wait; undefined where there is no place. The signal says that the wait is over. */
  hold<T>(call: Call, wait: (over: AbortSignal) => Promise<T>): Promise<T> | undefined;
  /** Ends the wait of one call, and lets it begin none. */
  end(call: Call): void;
  /** Ends every wait: each call is answered with its ticket. */
  endAll(): void;
}

export function openHeldCalls(): HeldCalls {
  const waits = new Map<Call, AbortController>();
  const ended = new WeakSet<Call>();
  const byOwner = new Map<string, number>();
  const count = (owner: string, change: 1 | -1): void => {
    const now = (byOwner.get(owner) ?? 0) + change;
    if (now > 0) byOwner.set(owner, now);
    else byOwner.delete(owner);
  };
  return {
    hold(call, wait) {
      const owner = ownerOf(call.identity);
      const { cost_tickets } = call.running.settings;
      const held_by_owner = byOwner.get(owner) ?? 0;
      if (call.gateway.is_draining || call.client_is_gone || ended.has(call)) return undefined;
      if (waits.size >= cost_tickets.held_max) return undefined;
      if (held_by_owner >= cost_tickets.held_per_key_max) return undefined;
      const over = new AbortController();
      call.onClientGone(() => over.abort());
      waits.set(call, over);
      count(owner, 1);
      return wait(over.signal).finally(() => {
        waits.delete(call);
        count(owner, -1);
      });
    },
    end(call) {
      ended.add(call);
      waits.get(call)?.abort();
    },
    endAll() {
      for (const over of waits.values()) over.abort();
    },
  };
}
