import { applyEdits, type Edit } from '../wire/edits';
import type { Inspector, Match } from './inspector';

/** Stands in the place of a text that was taken out. */
const REPLACEMENT = '[redacted]';

// Far above any window: more is held only if somebody stretches a match without end.
const HELD_MAX = 16_384;
// So many characters a pattern may look back, to find a word's beginning.
const CONTEXT = 8;
// An escape that a place may stand in the middle of.
const broken_escape = /\\(?:u[\da-f]{0,3}|x[\da-f]?)?$/i;
const bare_number = /[:,[]\s*-?[\d.]*$/;

/** A piece of what is said, in the order in which it came. */
export interface Piece {
  strand: Strand;
  from: number;
  to: number;
  text: string;
  edits: Edit[];
}

/**
 * One text that comes in pieces: the content of a choice, the arguments of a call. Holds back the
 * end in which something that must not pass may be in the making, so that no part of it is given
 * on.
 */
export class Strand {
  /** Before this place all is decided. */
  safe = 0;
  private readonly inspector: Inspector;
  private readonly redacts: boolean;
  private readonly is_json: boolean;
  private text = '';
  private base = 0;
  /**
   * The place where the next look begins. It lies before `safe` if the decided text ended in
   * something that may go on.
   */
  private from = 0;
  private pieces: Piece[] = [];

  /**
   * `is_json` says that the text is JSON itself, as the arguments of a call are; it stays JSON
   * after a redaction.
   */
  constructor(inspector: Inspector, redacts: boolean, is_json = false) {
    this.inspector = inspector;
    this.redacts = redacts;
    this.is_json = is_json;
  }

  push(text: string): Piece {
    const from = this.base + this.text.length;
    const piece: Piece = { strand: this, from, to: from + text.length, text, edits: [] };
    this.text += text;
    this.pieces.push(piece);
    return piece;
  }

  /**
   * Looks at the text that is not decided and returns the rule that blocks it. `is_final` says that
   * no text follows.
   */
  look(is_final: boolean): string | undefined {
    return this.lookTo(is_final, undefined);
  }

  /** A text that is whole, and looked at once. */
  lookAt(text: string): string | undefined {
    this.push(text);
    return this.look(true);
  }

  /**
   * The same for a text that has ended: all of it is decided, but text that still comes continues
   * it.
   */
  pause(): string | undefined {
    const { matches, safe } = this.inspector.look(this.text, this.from - this.base, false);
    return this.lookTo(true, this.base + decided(matches, safe));
  }

  private lookTo(is_final: boolean, next: number | undefined): string | undefined {
    const end = this.base + this.text.length;
    if (this.safe === end) return undefined;
    const { matches, safe } = this.inspector.look(this.text, this.from - this.base, is_final);
    const blocking = this.redacts ? undefined : matches.find(({ is_open }) => !is_open);
    if (blocking !== undefined) return blocking.rule;
    const limit = is_final ? decided(matches, safe) : this.wholeDecided(matches, safe);
    if (this.text.length - limit > HELD_MAX) return this.overflow(matches);
    if (this.redacts) this.redact(matches, limit);
    this.advance(limit, next);
    return undefined;
  }

  /** More is held than any window: what is certainly a match blocks, and the rest goes on. */
  private overflow(matches: readonly Match[]): string | undefined {
    const stretched = matches.find(({ is_open }) => is_open);
    if (stretched !== undefined) return stretched.rule;
    let limit = this.text.length - HELD_MAX / 2;
    // A match is taken out whole, wherever it began.
    for (const { start, end } of matches.toSorted((a, b) => a.start - b.start)) {
      if (start < limit) limit = Math.max(limit, end);
    }
    if (this.redacts) this.redact(matches, limit);
    this.advance(limit);
    return undefined;
  }

  private redact(matches: readonly Match[], limit: number): void {
    let from = 0;
    for (const { start, end } of matches.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
      if (end > limit) continue;
      // A match that overlaps the one before is one with it.
      const replacement = start < from ? '' : this.replacementOf(start, end);
      const to = this.wholeTo(end);
      if (to > from) this.cut(Math.max(this.wholeFrom(start), from), to, replacement);
      from = Math.max(from, to);
    }
  }

  private replacementOf(start: number, end: number): string {
    const is_number = this.is_json && /^\d+$/.test(this.text.slice(start, end));
    if (!is_number) return REPLACEMENT;
    // A number stays one.
    return bare_number.test(this.text.slice(Math.max(0, start - 64), start)) ? '1' : REPLACEMENT;
  }

  /**
   * The place, or the beginning of the escape that it lies in: half an escape would spoil the JSON
   * around it.
   */
  private wholeFrom(place: number): number {
    const least = Math.max(0, this.from - this.base);
    const begun = broken_escape.exec(this.text.slice(Math.max(least, place - 5), place));
    if (begun === null) return place;
    const at = place - begun[0].length;
    return this.runBefore(at) % 2 === 0 ? at : place;
  }

  /** The place, or the one before it if the backslash there belongs to the next character. */
  private wholeTo(place: number): number {
    const run = this.runBefore(place);
    return place < this.text.length && run % 2 === 1 ? place - 1 : place;
  }

  /**
   * The place before which all is decided, and which lies in no escape. Where it steps back out of
   * an escape, a match that ended with that escape waits too.
   */
  private wholeDecided(matches: readonly Match[], safe: number): number {
    let limit = decided(matches, safe);
    for (let whole = this.wholeFrom(limit); whole < limit; whole = this.wholeFrom(limit)) {
      limit = decided(matches, whole);
    }
    return limit;
  }

  private runBefore(place: number): number {
    const least = Math.max(0, this.from - this.base);
    let run = 0;
    while (place - run > least && this.text[place - run - 1] === '\\') run += 1;
    return run;
  }

  private cut(start: number, end: number, replacement: string): void {
    let text = replacement;
    for (const piece of this.pieces) {
      const at = Math.max(this.base + start, piece.from);
      const to = Math.min(this.base + end, piece.to);
      if (at >= to) continue;
      piece.edits.push({ start: at - piece.from, end: to - piece.from, text });
      text = '';
    }
  }

  private advance(limit: number, next = this.base + limit): void {
    this.safe = Math.max(this.safe, this.base + limit);
    this.from = next;
    const cut = Math.max(0, next - this.base - CONTEXT);
    this.text = this.text.slice(cut);
    this.base += cut;
    if (this.pieces.length > 0) this.pieces = this.pieces.filter(({ to }) => to > this.safe);
  }
}

/** The text of a piece once it is decided. */
export function decidedText({ text, edits }: Piece): string {
  return applyEdits(text, edits);
}

/**
 * The place before which all is decided: no match that ends behind it, or may still grow, begins
 * before it.
 */
function decided(matches: readonly Match[], safe: number): number {
  let limit = safe;
  for (const { start, end, is_open } of matches.toSorted((a, b) => b.start - a.start)) {
    if (is_open || end > limit) limit = Math.min(limit, start);
  }
  return limit;
}
