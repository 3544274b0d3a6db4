import { setImmediate as nextTurn } from 'node:timers/promises';
import type { DlpSettings } from '../config/policies';
import { applyEdits, type Edit } from '../wire/edits';
import { createInspector, type Inspector } from './inspector';
import { type Literal, literalsIn } from './literals';
import { decidedText, type Piece, Strand } from './strand';

// A text longer than this is looked at in pieces, so that other calls go on in between.
const PIECE_CHARACTERS = 16_384;
const TURN_CHARACTERS = 16_384;
// A look at a text costs as much as so many characters, however short the text is.
const TEXT_CHARACTERS = 64;

/** The result of a filter: a text is blocked by a rule, or passes as it was or redacted. */
export type Filtered = { rule: string; text?: never } | { rule?: never; text: string };

export interface Dlp {
  stages: readonly ('input' | 'output')[];
  redacts: boolean;
  inspector: Inspector;
}

export function createDlp(settings: DlpSettings): Dlp {
  const { stages, action } = settings;
  return { stages, redacts: action === 'redact', inspector: createInspector(settings) };
}

/**
 * Filters a whole body. `unread` says that it is an answer and which of its members nobody reads;
 * the odds of an answer's tokens are taken out.
 */
export async function checkJson(
  dlp: Dlp,
  text: string,
  unread?: ReadonlySet<string>,
): Promise<Filtered> {
  const { literals, echoes } = literalsIn(text, unread);
  const edits: Edit[] = [];
  const turn = { looked: 0 };
  for (const parts of groupsOf(literals)) {
    const rule = await checkParts(dlp, parts, edits, turn);
    if (rule !== undefined) return { rule };
  }
  // Token by token, the odds of an answer say again what it said.
  for (const { start, end, is_list } of unread === undefined ? [] : echoes) {
    const empty = is_list ? '[]' : 'null';
    if (text.slice(start, end) !== empty) edits.push({ start, end, text: empty });
  }
  return { text: applyEdits(text, edits) };
}

/**
 * Groups the parts of one content: they are read as one text, even if something stands between
 * them.
 */
function groupsOf(literals: readonly Literal[]): Iterable<Literal[]> {
  const groups = new Map<number, Literal[]>();
  for (const literal of literals) {
    // No string and no list begin at one place.
    const key = literal.parts_of ?? literal.start;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [literal]);
    else group.push(literal);
  }
  return groups.values();
}

/** Gives the rule that blocks; what is redacted is added to the edits. */
async function checkParts(
  { inspector, redacts }: Dlp,
  parts: readonly Literal[],
  edits: Edit[],
  turn: { looked: number },
): Promise<string | undefined> {
  const strand = new Strand(inspector, redacts, parts[0]?.is_json);
  const looked: { part: Literal; piece: Piece }[] = [];
  for (const part of parts) {
    for (let from = 0; from === 0 || from < part.value.length; from += PIECE_CHARACTERS) {
      const text = part.value.slice(from, from + PIECE_CHARACTERS);
      looked.push({ part, piece: strand.push(text) });
      const rule = strand.look(part === parts.at(-1) && from + text.length >= part.value.length);
      if (rule !== undefined) return rule;
      turn.looked += text.length + TEXT_CHARACTERS;
      if (turn.looked <= TURN_CHARACTERS) continue;
      turn.looked = 0;
      await nextTurn();
    }
  }
  for (const part of new Set(looked.filter(({ piece }) => piece.edits.length > 0).map(partOf))) {
    const said = looked.filter((one) => one.part === part).map(({ piece }) => decidedText(piece));
    edits.push({ start: part.start, end: part.end, text: JSON.stringify(said.join('')) });
  }
  return undefined;
}

function partOf({ part }: { part: Literal }): Literal {
  return part;
}

/** A text by itself. */
export function checkText({ inspector, redacts }: Dlp, text: string): Filtered {
  const strand = new Strand(inspector, redacts);
  const piece = strand.push(text);
  const rule = strand.look(true);
  return rule === undefined ? { text: decidedText(piece) } : { rule };
}
