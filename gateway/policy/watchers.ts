import type { Body } from '../wire/values';
import type { Dlp } from './dlp';
import type { Firewall } from './firewall';
import { decidedText, Strand } from './strand';
import type { Entry, Watcher } from './stream-guard';
import { type Called, restOf, type Said, type Talk } from './talk';

// Events repeat what is short: names of models, reasons, kinds.
const SEEN_MAX = 256;
const SEEN_CHARACTERS = 256;

/** Follows what each choice says, holding back what may become something that must not pass. */
export function watchText(dlp: Dlp, talk: Talk): Watcher {
  const strands = new Map<string, Strand>();
  const { seeWhole, seeName } = watchWhole(dlp);
  const strandOf = (name: string): Strand => {
    const known = strands.get(name);
    if (known !== undefined) return known;
    const made = new Strand(dlp.inspector, dlp.redacts, name.includes('arguments'));
    strands.set(name, made);
    return made;
  };
  const seePiece = (entry: Entry, said: Said): string | undefined => {
    if (said.strand === undefined) return undefined;
    const strand = strandOf(said.strand);
    entry.pieces.push({ piece: strand.push(said.text), said });
    return strand.look(false);
  };
  const endOf = (prefix: string): string | undefined =>
    first(
      [...strands].filter(([name]) => name.startsWith(prefix)),
      ([, strand]) => strand.pause(),
    );
  return {
    policy: 'dlp-filter',
    see(entry, event) {
      const pieces = talk.said(event);
      const rest = restOf(event, pieces, talk.unread);
      entry.is_changed ||= rest.is_changed;
      return (
        first(pieces, (said) => seePiece(entry, said)) ??
        first(rest.texts, (texts) => seeWhole(entry, texts)) ??
        first(rest.names, seeName) ??
        first(talk.ended(event), endOf)
      );
    },
    end: () => endOf(''),
  };
}

/** Looks at the texts that an event gives whole. */
function watchWhole(dlp: Dlp) {
  const seen = new Set<string>();
  let clean = '';
  const note = (text: string): void => {
    if (text.length > SEEN_CHARACTERS) clean = text;
    else if (seen.size < SEEN_MAX) seen.add(text);
  };
  /** Texts that come whole, most often several times; they are read as one. */
  const seeWhole = (entry: Entry, texts: readonly Said[]): string | undefined => {
    const whole = texts.length === 1 ? (texts[0] as Said).text : undefined;
    if (whole !== undefined && (whole === clean || seen.has(whole))) return undefined;
    const is_json = texts[0]?.member === 'arguments';
    const strand = new Strand(dlp.inspector, dlp.redacts, is_json);
    const pieces = texts.map(({ text }) => strand.push(text));
    const rule = strand.look(true);
    if (rule !== undefined) return rule;
    for (const [at, piece] of pieces.entries()) {
      if (piece.edits.length === 0) continue;
      const { holder, member } = texts[at] as Said;
      holder[member] = decidedText(piece);
      entry.is_changed = true;
    }
    if (whole !== undefined && pieces[0]?.edits.length === 0) note(whole);
    return undefined;
  };
  /** A name cannot be written otherwise without another meaning, so it is never redacted. */
  const seeName = (name: string): string | undefined => {
    if (seen.has(name)) return undefined;
    const rule = new Strand(dlp.inspector, false).lookAt(name);
    if (rule === undefined) note(name);
    return rule;
  };
  return { seeWhole, seeName };
}

interface Pending {
  id: string;
  name: string;
  is_settled: boolean;
}

/**
 * Follows which tools are called; a name may come in pieces, and nothing of the call passes before
 * it is whole.
 */
export function watchCalls(firewall: Firewall, talk: Talk): Watcher {
  const calls = new Map<string, Pending>();
  const settle = (pending: Pending): string | undefined => {
    const rule = firewall.forbids(pending.name);
    pending.is_settled = rule === undefined;
    return rule;
  };
  const seeOne = (entry: Entry, { call, id = '', name, is_whole }: Called): string | undefined => {
    let pending = calls.get(call);
    if (pending !== undefined && id !== '' && pending.id !== '' && id !== pending.id) {
      // Some providers number none of the calls that they make at one time.
      const rule = pending.is_settled ? undefined : settle(pending);
      if (rule !== undefined) return rule;
      calls.delete(call);
      pending = undefined;
    }
    if (name !== '') {
      // Some clients join the pieces of a name, some take the last one for the whole.
      const rule = firewall.denies(name);
      if (rule !== undefined) return rule;
      if (call === '') return firewall.forbids(name);
      pending ??= { id, name: '', is_settled: false };
      pending.name += name;
      calls.set(call, pending);
      // A name that was settled is judged again if more of it comes.
      if (pending.is_settled) return settle(pending);
    }
    if (pending === undefined || pending.is_settled) return undefined;
    entry.names.push(pending);
    return is_whole ? settle(pending) : undefined;
  };
  const endOf = (prefix: string): string | undefined =>
    first(
      [...calls].filter(([call, { is_settled }]) => !is_settled && call.startsWith(prefix)),
      ([, pending]) => settle(pending),
    );
  return {
    policy: 'agent-firewall',
    see: (entry, event: Body) =>
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
