import type { Check } from './buckets';
import type { Counters } from './counters';
import { admitInTurn, type Patience } from './queue';
import { leastOf, leftOf, mostConstrained, type Standing, standingOf } from './standing';

/** What the limits say of one call. */
export type Decision = Admitted | Refused;

/** The call may go on. */
interface Admitted {
  refused?: undefined;
  /** What it has counted, until it ends; undefined if nothing was counted. */
  held: HeldLimits | undefined;
  /** Undefined while nothing is enforced. */
  tightest: Tightest | undefined;
}

/** A limit refuses the call. */
interface Refused {
  refused: Standing;
  /** It is the first refusal of a global limit: until its window ends, all calls are refused. */
  opens_circuit: boolean;
}

/**
 * The limit that leaves least, and what the tightest limits of requests and of tokens have left.
 */
export interface Tightest {
  standing: Standing;
  /** Null if no limit counts requests. */
  remaining_rpm: number | null;
  /** Null if no limit counts tokens. */
  remaining_tpm: number | null;
}

/**
 * What a call has counted: its slots among the calls under way, and the tokens that it was
 * estimated at.
 */
export class HeldLimits {
  private readonly counters: Counters;
  private readonly checks: readonly Check[];
  private slots: readonly Check[];

  constructor(counters: Counters, checks: readonly Check[]) {
    this.counters = counters;
    this.checks = checks;
    this.slots = slotsOf(checks);
  }

  /** Gives the slots back: for a call whose client gets no more of its answer. */
  release(): void {
    for (const slot of this.slots) this.counters.release(slot);
    this.slots = [];
  }

  /** Gives back all but requests: for a call that waits for money. */
  pause(): void {
    this.release();
    for (const check of this.tokens()) this.counters.correct(check, 0);
  }

  private tokens(): readonly Check[] {
    return this.checks.filter(({ rule }) => rule.limit_type === 'tpm');
  }

  /**
   * Takes again what `pause` gave back: tokens at once, and slots for which it waits as long as
   * patience lasts; the limit that refuses in the end.
   */
  async retake(patience: Patience): Promise<Standing | undefined> {
    for (const check of this.tokens()) this.counters.correct(check, check.cost);
    const slots = slotsOf(this.checks);
    if (slots.length === 0) return undefined;
    const first = this.counters.admit(slots);
    // Not awaited without need: a slot that is released meanwhile wakes nobody who is not in line
    // yet.
    let last = first instanceof Promise ? await first : first;
    if (last !== undefined) last = await admitInTurn(this.counters, slots, last, patience);
    if (last !== undefined) {
      this.counters.tally(false);
      return standingOf(last, this.counters.resetOf(last));
    }
    this.slots = slots;
    return undefined;
  }

  /**
   * The call has ended: slots go back, and the tokens that were used take the place of the
   * estimate.
   */
  end(tokens: number): void {
    this.release();
    for (const check of this.tokens()) this.counters.correct(check, tokens);
  }
}

function slotsOf(checks: readonly Check[]): readonly Check[] {
  return checks.filter(({ rule }) => rule.limit_type === 'parallel');
}

/** The decision that lets a call go on, once all checks are counted. */
export function admitted(counters: Counters, checks: readonly Check[]): Admitted {
  const held = new HeldLimits(counters, checks);
  if (counters.isSuspended()) return { held, tightest: undefined };
  const most = mostConstrained(checks) as Check;
  const rpm = leastOf(checks, 'rpm');
  const tpm = leastOf(checks, 'tpm');
  const tightest = {
    standing: standingOf(most, counters.resetOf(most)),
    remaining_rpm: rpm === undefined ? null : leftOf(rpm),
    remaining_tpm: tpm === undefined ? null : leftOf(tpm),
  };
  return { held, tightest };
}

/** No tier knows the caller. */
export const unlimited: Decision = { held: undefined, tightest: undefined };
