import { type Body, listOf, stringOf } from '../wire/values';
import { endsChoice, endsOf, isUsageOnly, usageIn } from './chat';
import { textsOrTokens } from './embeddings';
import { addText, type Input, newInput } from './input';
import { addDelivered, type Reader } from './reader';
import { largerOf, openaiUsage } from './usage';

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
    found.usage = usageIn(answer);
    found.text = choicesText(answer);
    found.has_output = endsChoice(answer);
  },
  usageOf: openaiUsage,
  openStream(found, choices) {
    const hasEnded = endsOf(choices);
    return (chunk) => {
      found.usage = largerOf(found.usage, usageIn(chunk));
      addDelivered(found, choicesText(chunk));
      if (endsChoice(chunk)) found.has_output = true;
      if (!found.has_finish && hasEnded(chunk)) found.has_finish = true;
      return isUsageOnly(chunk);
    };
  },
};

function choicesText({ choices }: Body): string {
  return listOf(choices)
    .map(({ text }) => stringOf(text))
    .join('');
}
