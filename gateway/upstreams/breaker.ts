interface BreakerSettings {
  enabled: boolean;
  /** So many failures one after the other open the circuit. */
  failures: number;
  /** How long nothing is sent then. */
  open_ms: number;
}

const TRYING_MS = 1_000;

/** Keeps requests from a target that fails all of them. */
export interface Breaker {
  /**
   * False while the circuit is open. After its time one request may try; the others wait for its
   * end.
   */
  mayPass(): boolean;
  /**
   * The beginning of an answer has come: enough for the request that tries. True if that closes the
   * circuit.
   */
  answered(): boolean;
  succeeded(): void;
  /** True if that opens the circuit. */
  failed(): boolean;
  /** Neither: the request ended before it showed anything. */
  abandoned(): void;
  /** Milliseconds until a request may pass; 0 if one may now. */
  opensIn(): number;
}

export function createBreaker(
  { enabled, failures: failures_max, open_ms }: BreakerSettings,
  now: () => number = () => performance.now(),
): Breaker {
  let failures = 0;
  let open_until = 0;
  let is_trying = false;
  return {
    mayPass() {
      if (!enabled || failures < failures_max) return true;
      if (is_trying || now() < open_until) return false;
      is_trying = true;
      return true;
    },
    answered() {
      if (!is_trying) return false;
      failures = 0;
      is_trying = false;
      return true;
    },
    succeeded() {
      failures = 0;
      is_trying = false;
    },
    failed() {
      failures += 1;
      is_trying = false;
      if (!enabled || failures < failures_max) return false;
      open_until = now() + open_ms;
      return failures === failures_max;
    },
    abandoned() {
      is_trying = false;
    },
    opensIn() {
      if (!enabled || failures < failures_max) return 0;
      // The request that tries now may close it soon.
      return Math.max(is_trying ? TRYING_MS : 0, open_until - now());
    },
  };
}
