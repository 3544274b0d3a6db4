import type { Body } from '../wire/values';
import { type Input, newInput, wrong } from './input';
import type { Reader } from './reader';
import { openaiUsage } from './usage';

/** The input of an embedding: one text, several, or tokens, which are counted by their number. */
export function embeddingInput({ input }: Body): Input {
  return textsOrTokens('input', input).input;
}

/** A text, several, a list of tokens, or several such lists; and how many that are. */
export function textsOrTokens(name: string, value: unknown): { input: Input; count: number } {
  const input = newInput();
  if (typeof value === 'string') input.texts.push(value);
  else if (!Array.isArray(value) || value.length === 0) throw wrongTexts(name);
  else addTexts(input, name, value);
  const is_one = !Array.isArray(value) || value.every(Number.isInteger);
  return { input, count: is_one ? 1 : value.length };
}

function addTexts(input: Input, name: string, entries: unknown[]): void {
  for (const entry of entries) {
    if (typeof entry === 'string') input.texts.push(entry);
    else if (Number.isInteger(entry)) input.tokens += 1;
    else if (Array.isArray(entry) && entry.every(Number.isInteger)) input.tokens += entry.length;
    else throw wrongTexts(name);
  }
}

function wrongTexts(name: string) {
  return wrong(
    name,
    `${name} must be a text, a list of texts, a list of tokens, or a list of such lists.`,
  );
}

/** How answers without text are read: embeddings, and the verdicts of moderations. */
export const embeddingReader: Reader = {
  readAnswer(answer, found) {
    found.usage = openaiUsage(answer.usage);
    found.has_output = [answer.data, answer.results].some((all) => Array.isArray(all) && all[0]);
  },
  usageOf: openaiUsage,
  openStream: () => () => false,
};
