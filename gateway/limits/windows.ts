/** How a counter forgets. */
export type Window =
  /**
   * Counts by slots of time. One counted slot is a fixed window; several that pass one by one are a
   * sliding one.
   */
  | { kind: 'slots'; slot_ms: number; counted: number }
  /**
   * A level that falls by `amount` every `step_ms`: at once at the step's end, or evenly (a token
   * bucket).
   */
  | { kind: 'drain'; step_ms: number; amount: number; is_stepped: boolean }
  /**
   * Goes down only as it is given back. Slots are for others, who forget a holder that is silent
   * for two.
   */
  | { kind: 'lease'; slot_ms: number; counted: number };

/** What has been counted. */
export interface Count {
  /** Slot and count in turn, the older ones first. */
  slots: number[];
  level: number;
  /** The moment or step at which the level was right. */
  at: number;
}

interface Fit {
  is_allowed: boolean;
  /** Counted at present, what is asked for not included. */
  used: number;
  /** Milliseconds until there is more room, if it does not fit. */
  wait_ms: number;
}

// A sliding window moves in steps of a sixtieth of its length.
const SLIDING_SLOTS = 60;
const LEASE_SLOT_MS = 15_000;
// Other than a window's end, that of a call is not known.
const LEASE_RESET_MS = 1_000;

export function fixedWindow(window_ms: number): Window {
  return { kind: 'slots', slot_ms: window_ms, counted: 1 };
}

/**
 * Never lets more than its limit through in any stretch of its length: the slot that is half gone
 * counts whole.
 */
export function slidingWindow(window_ms: number): Window {
  return { kind: 'slots', slot_ms: window_ms / SLIDING_SLOTS, counted: SLIDING_SLOTS + 1 };
}

/** A fixed window whose use above `amount` is carried into the next ones. */
export function carryingWindow(window_ms: number, amount: number): Window {
  return { kind: 'drain', step_ms: window_ms, amount, is_stepped: true };
}

/** A token bucket that wins one request back every `step_ms`. */
export function tokenBucket(step_ms: number): Window {
  return { kind: 'drain', step_ms, amount: 1, is_stepped: false };
}

/** Slots of calls under way: 30 s after its last report a silent gateway holds none. */
export function leases(): Window {
  return { kind: 'lease', slot_ms: LEASE_SLOT_MS, counted: 2 };
}

export function newCount(): Count {
  return { slots: [], level: 0, at: 0 };
}

/** Whether so much more fits under a limit. Changes nothing. */
export function decide(
  { window, limit }: { window: Window; limit: number },
  count: Count,
  now: number,
  need: number,
): Fit {
  const used = usedAt(window, count, now);
  if (used + need <= limit) return { is_allowed: true, used, wait_ms: 0 };
  const wait_ms = resetAfter(window, count, now, used + need - limit);
  return { is_allowed: false, used, wait_ms };
}

/** What of a count still counts now. */
export function usedAt(window: Window, count: Count, now: number): number {
  if (window.kind === 'lease') return count.level;
  if (window.kind === 'drain') {
    const passed = stepOf(window, now) - count.at;
    return Math.max(0, count.level - Math.max(0, passed) * window.amount);
  }
  const { slots } = count;
  const gone = slotOf(window, now) - window.counted;
  let used = 0;
  for (let n = 0; n < slots.length; n += 2) {
    if ((slots[n] as number) > gone) used += slots[n + 1] as number;
  }
  return used;
}

/** Milliseconds until there is more room: for an excess, until it is gone. */
export function resetAfter(window: Window, count: Count, now: number, excess: number): number {
  if (window.kind === 'lease') return LEASE_RESET_MS;
  if (window.kind === 'drain') {
    const steps = Math.max(1, excess / window.amount);
    if (!window.is_stepped) return Math.max(0, steps * window.step_ms);
    return (Math.floor(now / window.step_ms) + Math.ceil(steps)) * window.step_ms - now;
  }
  const present = slotOf(window, now);
  const gone = present - window.counted;
  let left = excess;
  for (let n = 0; n < count.slots.length; n += 2) {
    const slot = count.slots[n] as number;
    if (slot <= gone) continue;
    left -= count.slots[n + 1] as number;
    if (left <= 0) return endOf(window, slot, now);
  }
  return endOf(window, present, now);
}

/** Milliseconds until a slot is no longer counted. */
export function endOf(
  { slot_ms, counted }: { slot_ms: number; counted: number },
  slot: number,
  now: number,
): number {
  return Math.max(0, (slot + counted) * slot_ms - now);
}

/** Counts; returns the place where it was counted, for `remove`. */
export function add(window: Window, count: Count, now: number, amount: number): number {
  if (window.kind === 'lease') {
    count.level += amount;
    return 0;
  }
  if (window.kind === 'drain') {
    count.level = usedAt(window, count, now) + amount;
    count.at = stepOf(window, now);
    return count.at;
  }
  const { slots } = count;
  const slot = slotOf(window, now);
  const gone = slot - window.counted;
  while (slots.length > 0 && (slots[0] as number) <= gone) slots.splice(0, 2);
  const last = slots.length - 2;
  // A clock that was set back counts in the newest slot.
  if (last >= 0 && (slots[last] as number) >= slot) {
    slots[last + 1] = (slots[last + 1] as number) + amount;
    return slots[last] as number;
  }
  slots.push(slot, amount);
  return slot;
}

/** Gives back what was counted at `at`, unless that is forgotten already. */
export function remove(window: Window, count: Count, at: number, amount: number): void {
  if (window.kind !== 'slots') {
    count.level = Math.max(0, count.level - amount);
    return;
  }
  const { slots } = count;
  for (let n = slots.length - 2; n >= 0; n -= 2) {
    if (slots[n] === at) slots[n + 1] = Math.max(0, (slots[n + 1] as number) - amount);
  }
}

/**
 * True if a level that falls in steps has lost what was counted in the step `counted_at`, over a
 * level of `counted_over`: what lies below goes first.
 */
export function hasDrained(
  window: Window,
  { counted_at, counted_over }: { counted_at: number; counted_over: number },
  now: number,
): boolean {
  if (window.kind !== 'drain' || !window.is_stepped) return false;
  const steps = stepOf(window, now) - counted_at;
  return steps > 0 && counted_over < steps * window.amount;
}

/** The counts as the shared store keeps them: `slot:count,slot:count`. */
export function written(window: Window, count: Count, now: number): string {
  if (window.kind === 'lease') {
    return count.level > 0 ? `${slotOf(window, now)}:${count.level}` : '';
  }
  if (window.kind === 'drain') return '';
  const { slots } = count;
  const gone = slotOf(window, now) - window.counted;
  let text = '';
  for (let n = 0; n < slots.length; n += 2) {
    if ((slots[n] as number) <= gone || slots[n + 1] === 0) continue;
    text += `${text === '' ? '' : ','}${slots[n]}:${slots[n + 1]}`;
  }
  return text;
}

/** The same with so much more in the present slot. */
export function writtenAhead(
  { window, count }: { window: Window; count: Count },
  now: number,
  more: number,
): string {
  const at = add(window, count, now, more);
  const text = written(window, count, now);
  remove(window, count, at, more);
  return text;
}

/** The number of the slot of time that a moment in ms lies in. */
export function slotOf({ slot_ms }: { slot_ms: number }, now: number): number {
  return Math.floor(now / slot_ms);
}

function stepOf(
  { step_ms, is_stepped }: { step_ms: number; is_stepped: boolean },
  now: number,
): number {
  return is_stepped ? Math.floor(now / step_ms) : now / step_ms;
}
