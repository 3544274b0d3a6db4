import { checkText, type Dlp } from './policy-dlp';
import type { Firewall } from './policy-firewall';
import { decidedText, type Slot, Strand } from './policy-strand';
import type { Called, Said, Talk } from './policy-talk';
import type { Frame } from './sse';
import { type Body, isObject } from './usage';

// A frame that was too long to be read cannot be checked either.
const UNREAD_MAX_BYTES = 1_048_576;

/** What an output policy found: the policy, and the rule, without the words that broke it. */
export interface Violation {
  policy: string;
  rule: string;
}

/** Stands between a stream and its client. */
export interface StreamGuard {
  /** Takes whole frames and gives those that may go on, in their order; none once something was found. */
  push(frames: readonly Frame[]): Buffer;
  /** The stream is over: gives what was held back. `rest` are the bytes of a frame that never ended. */
  end(rest: Frame | undefined): Buffer;
  violation(): Violation | undefined;
}

/** A policy that follows a stream. Both methods give the rule that was broken. */
export interface Watcher {
  policy: string;
  see(entry: Entry, event: Body): string | undefined;
  /** No more follows: whatever is in the making is whole. */
  end(): string | undefined;
}

/** A frame on its way, and what of it is not decided. */
export interface Entry {
  frame: Frame;
  event: Body | undefined;
  slots: { slot: Slot; said: Said }[];
  names: { is_settled: boolean }[];
  is_changed: boolean;
}

/** Frames go on as they came, byte by byte, but those in which something was redacted. */
export function openStreamGuard(watchers: readonly Watcher[], dlp: Dlp | undefined, talk: Talk) {
  const waiting: Entry[] = [];
  let violation: Violation | undefined;
  const note = (policy: string, rule: string | undefined): boolean => {
    if (rule !== undefined) violation ??= { policy, rule };
    return rule !== undefined;
  };
  const endAll = (): boolean => watchers.some((watcher) => note(watcher.policy, watcher.end()));
  const take = (frame: Frame): void => {
    const event = eventOf(frame);
    const entry: Entry = { frame, event, slots: [], names: [], is_changed: false };
    if (event !== undefined) {
      if (watchers.some((watcher) => note(watcher.policy, watcher.see(entry, event)))) return;
    } else if (frame.data === '[DONE]') {
      if (endAll()) return;
    } else if (dlp !== undefined && isUnread(frame)) {
      const verdict = frame.data === undefined ? { rule: 'unread' } : checkText(dlp, frame.data);
      if (note('dlp-filter', verdict.rule)) return;
      if (verdict.text !== frame.data) entry.frame = rewritten(frame, verdict.text as string);
    }
    waiting.push(entry);
  };
  const release = (): Buffer => {
    let count = 0;
    while (count < waiting.length && isDecided(waiting[count] as Entry)) count += 1;
    const free = waiting.splice(0, count).map((entry) => bytesOf(entry, talk));
    return free.length === 1 ? (free[0] as Buffer) : Buffer.concat(free);
  };
  return {
    push(frames) {
      for (const frame of frames) if (violation === undefined) take(frame);
      return release();
    },
    end(rest) {
      if (violation === undefined && rest !== undefined) take(rest);
      if (violation === undefined) endAll();
      return release();
    },
    violation: () => violation,
  } satisfies StreamGuard;
}

/** Follows what each choice says, holding back what may become something that must not pass. */
export function watchText(dlp: Dlp, talk: Talk): Watcher {
  const strands = new Map<string, Strand>();
  let clean = '';
  const strandOf = (name: string): Strand => {
    const known = strands.get(name);
    if (known !== undefined) return known;
    const made = new Strand(dlp.inspector, dlp.redacts);
    strands.set(name, made);
    return made;
  };
  /** A text that is told whole, most often several times. */
  const seeWhole = (entry: Entry, said: Said): string | undefined => {
    if (said.text === clean) return undefined;
    const verdict = checkText(dlp, said.text);
    if (verdict.rule !== undefined) return verdict.rule;
    if (verdict.text === said.text) clean = said.text;
    else {
      said.holder[said.member] = verdict.text;
      entry.is_changed = true;
    }
    return undefined;
  };
  const seeOne = (entry: Entry, said: Said): string | undefined => {
    if (said.strand === undefined) return seeWhole(entry, said);
    const strand = strandOf(said.strand);
    entry.slots.push({ slot: strand.push(said.text), said });
    return strand.look(false);
  };
  const endOf = (prefix: string): string | undefined => {
    for (const [name, strand] of strands) {
      if (!name.startsWith(prefix)) continue;
      const rule = strand.look(true);
      if (rule !== undefined) return rule;
      strands.delete(name);
    }
    return undefined;
  };
  return {
    policy: 'dlp-filter',
    see: (entry, event) =>
      first(talk.said(event), (said) => seeOne(entry, said)) ?? first(talk.ended(event), endOf),
    end: () => endOf(''),
  };
}

/** Follows which tools are called; a name may come in pieces, and nothing of the call passes before it is whole. */
export function watchCalls(firewall: Firewall, talk: Talk): Watcher {
  const open = new Map<string, { name: string; is_settled: boolean }>();
  const settle = (call: string): string | undefined => {
    const pending = open.get(call);
    if (pending === undefined) return undefined;
    open.delete(call);
    const rule = firewall.forbids(pending.name);
    pending.is_settled = rule === undefined;
    return rule;
  };
  const seeOne = (entry: Entry, { call, name, is_whole }: Called): string | undefined => {
    const pending = open.get(call);
    if (pending === undefined && name === '') return undefined;
    if (pending === undefined && is_whole) return firewall.forbids(name);
    const known = pending ?? { name: '', is_settled: false };
    known.name += name;
    open.set(call, known);
    entry.names.push(known);
    return is_whole ? settle(call) : undefined;
  };
  const endOf = (prefix: string): string | undefined =>
    first(
      [...open.keys()].filter((call) => call.startsWith(prefix)),
      settle,
    );
  return {
    policy: 'agent-firewall',
    see: (entry, event) =>
      first(talk.called(event), (called) => seeOne(entry, called)) ??
      first(talk.ended(event), endOf),
    end: () => endOf(''),
  };
}

function first<Item>(
  items: readonly Item[],
  step: (item: Item) => string | undefined,
): string | undefined {
  for (const item of items) {
    const rule = step(item);
    if (rule !== undefined) return rule;
  }
  return undefined;
}

function eventOf({ data, json }: Frame): Body | undefined {
  if (json !== undefined) return isObject(json) ? json : undefined;
  if (data === undefined || data === '[DONE]') return undefined;
  try {
    const event = JSON.parse(data) as unknown;
    return isObject(event) ? event : undefined;
  } catch {
    return undefined;
  }
}

function isUnread({ data, bytes }: Frame): boolean {
  return data !== undefined || bytes.length > UNREAD_MAX_BYTES;
}

function isDecided({ slots, names }: Entry): boolean {
  return (
    slots.every(({ slot }) => slot.strand.safe >= slot.to) &&
    names.every(({ is_settled }) => is_settled)
  );
}

function bytesOf({ frame, event, slots, is_changed }: Entry, talk: Talk): Buffer {
  const edited = slots.filter(({ slot }) => slot.edits.length > 0);
  if (event === undefined || (!is_changed && edited.length === 0)) return frame.bytes;
  for (const { slot, said } of edited) said.holder[said.member] = decidedText(slot);
  talk.scrub(event);
  return rewritten(frame, JSON.stringify(event)).bytes;
}

function rewritten(frame: Frame, data: string): Frame {
  const name = frame.event === undefined ? '' : `event: ${frame.event}\n`;
  const lines = data.split('\n').map((line) => `data: ${line}\n`);
  return { ...frame, data, bytes: Buffer.from(`${name}${lines.join('')}\n`) };
}
