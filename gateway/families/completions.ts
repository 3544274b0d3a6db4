import { type Body, listOf, stringOf } from '../wire/values';
import { endsChoice, isUsageOnly, openaiUsage } from './chat';
import { textsOrTokens } from './embeddings';
import { addText, type Input, newInput } from './input';
import { addDelivered, type Reader } from './reader';

/** The input of a legacy completion. */
export function promptInput(body: Body): Input {
  const { input } = promptsOf(body);
  addText(input, body.suffix);
  return input;
}

/**
 * The prompts of a legacy completion and their number: each one is answered. Null is an empty
 * document.
 */
export function promptsOf({ prompt }: Body): { input: Input; count: number } {
  if (prompt === undefined || prompt === null) return { input: newInput(1), count: 1 };
  return textsOrTokens('prompt', prompt);
}

/** How the answers of legacy completions are read. */
export const completionReader: Reader = {
  readAnswer(answer, found) {
    found.usage = openaiUsage(answer.usage);
    found.text = choicesText(answer);
  },
  usageOf: openaiUsage,
  openStream: (found) => (chunk) => {
    if (chunk.error != null) found.has_failed = true;
    found.usage = openaiUsage(chunk.usage) ?? found.usage;
    addDelivered(found, choicesText(chunk));
    if (endsChoice(chunk)) found.has_finish = true;
    return isUsageOnly(chunk);
  },
};

function choicesText({ choices }: Body): string {
  return listOf(choices)
    .map(({ text }) => stringOf(text))
    .join('');
}
