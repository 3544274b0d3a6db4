// Characters that nobody sees: those that lay out text, those that may be ignored, controls, and a
// few that are drawn as nothing. White space is seen; U+0085 is white space and a control.
const drawn_as_nothing = '\\u2800\\u{1D159}';
const ignored = `\\p{Cf}\\p{Default_Ignorable_Code_Point}${drawn_as_nothing}`;

const source = `[${ignored}]|(?![\\t-\\r\\x85])\\p{Cc}`;

/** Finds a character that is not seen and is no white space. */
export const unseen = new RegExp(source, 'u');

const every_unseen = new RegExp(source, 'gu');
const blank_or_unseen = new RegExp(`[${ignored}\\p{Cc}\\s]`, 'gu');

/** The text without its unseen characters; white space stays. */
export function withoutUnseen(text: string): string {
  return text.replace(every_unseen, '');
}

/** True if something of the text is seen. */
export function isSeen(text: string): boolean {
  return text.replace(blank_or_unseen, '') !== '';
}
