import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Inspector, openInspector } from './policy-inspector';
import { type Literal, literalsIn, spliced } from './policy-json';
import type { DlpSettings } from './policy-settings';
import { decidedText, type Slot, Strand } from './policy-strand';

// A text longer than this is looked at in pieces, so that other calls go on in between.
const PIECE_CHARACTERS = 16_384;
const TURN_CHARACTERS = 32_768;

/** What became of a text: blocked by a rule, or given on, as it was or redacted. */
export type Verdict = { rule: string; text?: never } | { rule?: never; text: string };

export interface Dlp {
  stages: readonly ('input' | 'output')[];
  redacts: boolean;
  inspector: Inspector;
}

export function openDlp(settings: DlpSettings): Dlp {
  const { stages, action } = settings;
  return { stages, redacts: action === 'redact', inspector: openInspector(settings) };
}

/** A whole body. `roots` are the members that say something; all of them where it is undefined. */
export async function checkJson(
  dlp: Dlp,
  text: string,
  roots?: ReadonlySet<string>,
): Promise<Verdict> {
  const { literals, echoes } = literalsIn(text, roots);
  const edits: Edit[] = [];
  const turn = { looked: 0 };
  for (let at = 0; at < literals.length; ) {
    // Parts of one content are read as one text.
    const parts_of = literals[at]?.parts_of;
    let next = at + 1;
    while (parts_of !== undefined && literals[next]?.parts_of === parts_of) next += 1;
    const rule = await checkParts(dlp, literals.slice(at, next), edits, turn);
    if (rule !== undefined) return { rule };
    at = next;
  }
  if (edits.length === 0) return { text };
  // Token by token, the odds of an answer say again what it said.
  for (const { start, end, is_list } of echoes) {
    edits.push({ start, end, text: is_list ? '[]' : 'null' });
  }
  return { text: spliced(text, edits) };
}

interface Edit {
  start: number;
  end: number;
  text: string;
}

/** Gives the rule that blocks; what is redacted is added to the edits. */
async function checkParts(
  { inspector, redacts }: Dlp,
  parts: readonly Literal[],
  edits: Edit[],
  turn: { looked: number },
): Promise<string | undefined> {
  const strand = new Strand(inspector, redacts);
  const pieces: { part: Literal; slot: Slot }[] = [];
  for (const part of parts) {
    for (let from = 0; from === 0 || from < part.value.length; from += PIECE_CHARACTERS) {
      const piece = part.value.slice(from, from + PIECE_CHARACTERS);
      pieces.push({ part, slot: strand.push(piece) });
      const rule = strand.look(part === parts.at(-1) && from + piece.length >= part.value.length);
      if (rule !== undefined) return rule;
      turn.looked += piece.length;
      if (turn.looked <= TURN_CHARACTERS) continue;
      turn.looked = 0;
      await nextTurn();
    }
  }
  for (const part of new Set(pieces.filter(({ slot }) => slot.edits.length > 0).map(partOf))) {
    const said = pieces.filter((piece) => piece.part === part).map(({ slot }) => decidedText(slot));
    edits.push({ start: part.start, end: part.end, text: JSON.stringify(said.join('')) });
  }
  return undefined;
}

function partOf({ part }: { part: Literal }): Literal {
  return part;
}

/** A text by itself. */
export function checkText({ inspector, redacts }: Dlp, text: string): Verdict {
  const strand = new Strand(inspector, redacts);
  const slot = strand.push(text);
  const rule = strand.look(true);
  return rule === undefined ? { text: decidedText(slot) } : { rule };
}
