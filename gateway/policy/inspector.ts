import type { DlpSettings } from '../config/policies';
import { builtinPattern, ownPattern, type Pattern, type Range } from './patterns';
import { createTerms, type Terms } from './terms';
import { createReading, endOf, openFrom, startOf, type View } from './views';

/** A part of a text that must not pass. The rule names it, without its words. */
export interface Match extends Range {
  rule: string;
  /** More text may show that it is longer, or none. */
  is_open: boolean;
}

interface Inspected {
  matches: Match[];
  /** Up to here no match can begin any more, in any text that follows. */
  safe: number;
}

export type Inspector = ReturnType<typeof createInspector>;

/** Looks for terms and patterns in a text. It keeps nothing of the text. */
export function createInspector({ blocked_terms, detect_patterns }: DlpSettings) {
  const terms = blocked_terms.length > 0 ? createTerms(blocked_terms) : undefined;
  const patterns = detect_patterns.map((pattern) =>
    typeof pattern === 'string' ? builtinPattern(pattern) : ownPattern(pattern),
  );
  const viewsOf = createReading();
  return {
    look(text: string, from: number, is_final: boolean): Inspected {
      // Half a character is left for later: it may continue a term, or end it.
      const end = is_final ? text.length : openFrom(text);
      const result: Inspected = { matches: [], safe: end };
      for (const view of viewsOf(end < text.length ? text.slice(0, end) : text, is_final)) {
        if (!is_final) result.safe = Math.min(result.safe, startOf(view, view.text.length));
        if (terms !== undefined) lookForTerms(terms, view, from, result);
        if (view.is_for_terms) continue;
        for (const pattern of patterns) lookForPattern(pattern, view, { from, is_final }, result);
      }
      if (is_final) result.safe = text.length;
      return result;
    },
  };
}

function lookForTerms(terms: Terms, view: View, from: number, result: Inspected): void {
  const { found, partial } = terms.find(view.text, viewFrom(view, from));
  result.safe = Math.min(result.safe, startOf(view, Math.min(partial, view.text.length)));
  for (const { rule, start, end } of found) {
    result.matches.push({
      ...placed(view, start, end),
      rule: `blocked_terms[${rule}]`,
      is_open: false,
    });
  }
}

function lookForPattern(
  { name, find, tail }: Pattern,
  view: View,
  { from, is_final }: { from: number; is_final: boolean },
  result: Inspected,
): void {
  const { text } = view;
  if (!is_final) result.safe = Math.min(result.safe, startOf(view, tail(text)));
  for (const { start, end } of find(text, viewFrom(view, from))) {
    const is_open = !is_final && end === text.length;
    result.matches.push({ ...placed(view, start, end), rule: name, is_open });
  }
}

function placed(view: View, start: number, end: number): Range {
  return { start: startOf(view, start), end: endOf(view, end) };
}

/** The first character of a view that stands at or behind a place. */
function viewFrom({ map }: View, from: number): number {
  if (map === undefined || from === 0) return from;
  const at = map.findIndex((place) => place >= from);
  return at < 0 ? map.length - 1 : at;
}
