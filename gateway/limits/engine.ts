import type { Identity } from '../../domain/people/identity';
import { counted } from '../../runtime/client-address';
import type { Logger } from '../../runtime/log';
import { holds } from '../../runtime/networks';
import type { Check } from './buckets';
import { type Counters, type LimitStats, openCounters } from './counters';
import { admitted, type Decision, unlimited } from './decision';
import { admitInTurn, hasLine } from './queue';
import type { LimitRules } from './rules';
import { type Standing, standingOf } from './standing';
import type { StoreState } from './store';

/** An address that was counted ahead of everything else. */
export interface CountedAddress {
  /** Under which the address is counted. */
  address: string;
  /**
   * What was counted; undefined if nothing limits the address. The decision over all tiers takes it
   * over.
   */
  check: Check | undefined;
  /** How its limit stands, if that refuses. */
  refused: Standing | undefined;
  /** A decision over all tiers has taken the count over, or an event has told of it. */
  is_told: boolean;
}

/** The address of a call that no limit concerns. */
export const uncounted: CountedAddress = {
  address: '',
  check: undefined,
  refused: undefined,
  is_told: true,
};

/** The call that is decided on. */
interface LimitedCall {
  identity: Identity;
  address: CountedAddress;
  /** Tokens of the prompt, as far as they can be estimated. */
  prompt_tokens: number;
  is_stream: boolean;
  /** Nothing waits for room once it drains. */
  gateway: { readonly is_draining: boolean };
  /**
   * Takes one of the places of calls that wait for room, and runs the wait; undefined if there is
   * none. The signal says that its client has gone.
   */
  hold<T>(wait: (over: AbortSignal) => Promise<T>): Promise<T> | undefined;
}

/** What the global limit has said for all requests until its window ends. */
interface Circuit {
  /** Of this configuration: another one may allow more. */
  rules: LimitRules;
  /** The global limit that refused. */
  check: Check;
  standing: Standing;
  /** By the clock of the counters. */
  until: number;
}

export function openLimits(log: Logger, counters: Counters = openCounters(log)): Limits {
  return new Limits(counters);
}

/** Of a request that no limit of requests counts. */
const uncountedDecision = { held: undefined, tightest: undefined } as const;

/** Decides on calls: one decision over all tiers of a configuration. */
export class Limits {
  readonly counters: Counters;
  private circuit: Circuit | undefined;

  constructor(counters: Counters) {
    this.counters = counters;
  }

  /** Follows a configuration: where the shared store is. */
  use(rules: Pick<LimitRules, 'store'>): void {
    this.counters.use(rules);
  }

  /**
   * Counts a request of an address, once, by what is known here; `address` is empty if nobody knows
   * it.
   */
  countAddress({ ip }: Pick<LimitRules, 'ip'>, address: string): CountedAddress {
    const name = counted(address);
    if (ip === undefined || address === '' || holds(ip.whitelist, address)) {
      return { address: name, check: undefined, refused: undefined, is_told: true };
    }
    const check = this.counters.check(ip.rule, name, 1, 1);
    const counted_address = { address: name, check, refused: undefined, is_told: false };
    if (this.counters.countHere(check)) return counted_address;
    this.counters.tally(false);
    return { ...counted_address, refused: this.standingOf(check) };
  }

  /**
   * Decides on all tiers at once: counts the call in each, or in none. A tier with a queue may make
   * it wait. The count of the address goes back with a refusal, except that of an open circuit,
   * which looks at no tier.
   */
  decide(rules: LimitRules, call: LimitedCall): Decision | Promise<Decision> {
    const circuit = this.openCircuit(rules);
    if (circuit !== undefined) return this.refuse(circuit);
    const checks = this.checksOf(rules, call);
    if (checks.length === 0) return unlimited;
    const too_small = this.tooSmall(checks);
    if (too_small !== undefined) return this.conclude(rules, checks, too_small);
    const line = hasLine(checks);
    // Others wait for the same room: the call goes behind them, unless another limit has none.
    if (line !== undefined) return this.inTurn(rules, checks, this.fullOr(line, checks), call);
    const full = this.counters.admit(checks);
    const is_decided = !(full instanceof Promise) && (full?.rule.queue_ms ?? 0) === 0;
    return is_decided ? this.conclude(rules, checks, full) : this.inTurn(rules, checks, full, call);
  }

  /**
   * Counts a request that is no call, in all limits of requests or in none; of the others it only
   * says how they stand. An open circuit refuses it as it does a call.
   */
  async countRequest(
    rules: LimitRules,
    caller: Pick<LimitedCall, 'identity' | 'address'>,
  ): Promise<{ decision: Decision; all: Standing[] }> {
    const circuit = this.openCircuit(rules);
    if (circuit !== undefined) return { decision: this.refuse(circuit), all: [] };
    const checks = this.checksOf(rules, { ...caller, prompt_tokens: 0, is_stream: false });
    const counting = checks.filter(({ rule }) => rule.limit_type === 'rpm');
    const full = counting.length === 0 ? undefined : await this.counters.admit(counting);
    const decision: Decision =
      counting.length === 0 ? uncountedDecision : this.conclude(rules, counting, full);
    if (decision.refused !== undefined) return { decision, all: [] };
    for (const check of checks) if (!counting.includes(check)) this.counters.look(check);
    return { decision, all: checks.map((check) => this.standingOf(check)) };
  }

  /** Undefined if no store is shared. */
  storeState(): StoreState | undefined {
    return this.counters.storeState();
  }

  stats(): LimitStats {
    return this.counters.stats();
  }

  close(): Promise<void> {
    return this.counters.close();
  }

  private async inTurn(
    rules: LimitRules,
    checks: readonly Check[],
    first: Check | undefined | Promise<Check | undefined>,
    { gateway, hold }: LimitedCall,
  ): Promise<Decision> {
    // Not awaited without need: room that comes meanwhile wakes nobody who is not in line yet.
    const full = first instanceof Promise ? await first : first;
    if (full === undefined || full.rule.queue_ms === 0 || gateway.is_draining) {
      return this.conclude(rules, checks, full);
    }
    let has_left = false;
    const waited = hold(async (over) => {
      const patience = { wait_ms: full.rule.queue_ms, over };
      const last = await admitInTurn(this.counters, checks, full, patience);
      has_left = last !== undefined && over.aborted;
      return last;
    });
    const last = waited === undefined ? full : await waited;
    if (!has_left) return this.conclude(rules, checks, last);
    // Nobody hears of a refusal.
    this.takeBack(checks);
    return uncountedDecision;
  }

  /** The check that refuses a call at once or lets it wait, where others wait in a line already. */
  private fullOr(line: Check, checks: readonly Check[]): Check {
    const full = checks.filter((check) => this.counters.isFull(check));
    const refusing = full.find(({ rule }) => rule.queue_ms === 0);
    const earlier = full.find((check) => checks.indexOf(check) <= checks.indexOf(line));
    this.counters.look(line);
    return refusing ?? earlier ?? line;
  }

  /** Gives back what was counted ahead of the decision. */
  private takeBack(checks: readonly Check[]): void {
    for (const check of checks) {
      if (check.counted === 0) continue;
      check.used -= check.counted;
      this.counters.takeBack(check);
    }
  }

  /**
   * Ends a decision: `full` is the check that refuses. What was counted ahead of a refusal goes
   * back.
   */
  private conclude(rules: LimitRules, checks: readonly Check[], full: Check | undefined): Decision {
    if (full === undefined) {
      if (!this.counters.isSuspended()) this.counters.tally(true);
      return admitted(this.counters, checks);
    }
    this.takeBack(checks);
    const standing = this.standingOf(full);
    const { scope, limit_type, used, limit } = standing;
    // One request that is too large says nothing of the others.
    const is_full = scope === 'global' && limit_type !== 'parallel' && used >= limit;
    if (!is_full || !rules.has_circuit || this.openCircuit(rules)) return this.refuse(standing);
    const until = this.counters.now() + standing.reset_at - Date.now();
    this.circuit = { rules, check: full, standing, until };
    return this.refuse(standing, true);
  }

  private refuse(standing: Standing, opens_circuit = false): Decision {
    this.counters.tally(false);
    return { refused: standing, opens_circuit };
  }

  /** How the global limit stands whose refusal closes the gateway until its window ends. */
  openCircuit(rules: LimitRules): Standing | undefined {
    const { circuit } = this;
    if (circuit === undefined || circuit.rules !== rules || this.counters.isSuspended())
      return undefined;
    const { check, until } = circuit;
    const left_ms = until - this.counters.now();
    if (left_ms > 0 && !this.hasTokens(check))
      return { ...circuit.standing, reset_at: Date.now() + left_ms };
    this.circuit = undefined;
    return undefined;
  }

  /** True for a limit of tokens that has some again, as estimates were too high. */
  private hasTokens(check: Check): boolean {
    if (check.rule.limit_type !== 'tpm') return false;
    this.counters.look(check);
    return check.used < check.rule.limit;
  }

  /** The limit that the call is larger than: no wait makes room for it. */
  private tooSmall(checks: readonly Check[]): Check | undefined {
    if (this.counters.isSuspended()) return undefined;
    const found = checks.find(({ need, rule }) => need > rule.limit);
    if (found !== undefined) this.counters.look(found);
    return found;
  }

  /** How a limit stands. */
  standingOf(check: Check): Standing {
    return standingOf(check, this.counters.resetOf(check));
  }

  /** All that a call is limited by, in the order of the tiers; its address comes first. */
  private checksOf(
    { tiers, tokens }: LimitRules,
    call: Pick<LimitedCall, 'identity' | 'address' | 'prompt_tokens' | 'is_stream'>,
  ): Check[] {
    const { identity, address, prompt_tokens, is_stream } = call;
    const caller = { identity, address: address.address };
    const is_estimated = tokens.count_prompt_tokens && (tokens.pre_request_estimate || !is_stream);
    const estimate = is_estimated ? prompt_tokens : 0;
    // Without pre_request_estimate any request fits that finds a token left.
    const tokens_needed = tokens.pre_request_estimate ? Math.max(1, estimate) : 1;
    const checks: Check[] = address.check === undefined ? [] : [address.check];
    for (const { rulesOf, idOf } of tiers) {
      const id = idOf(caller);
      if (id === null) continue;
      for (const rule of rulesOf(caller)) {
        checks.push(
          rule.limit_type === 'tpm'
            ? this.counters.check(rule, id, tokens_needed, estimate)
            : this.counters.check(rule, id, 1, 1),
        );
      }
    }
    return checks;
  }
}
