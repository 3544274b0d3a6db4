import { type Body, listOf } from '../wire/values';
import { indexOf, type Said, silentTalk, type Talk } from './talk';

/** How policies read legacy completions. */
export const completionsTalk: Talk = {
  hides: ({ prompt }) => hasTokens(prompt),
  unread: new Set(),
  said: ({ choices }) =>
    listOf(choices).flatMap((choice, at): Said[] => {
      const { text } = choice;
      if (typeof text !== 'string' || text === '') return [];
      return [{ strand: `${indexOf(choice, at)}.text`, text, holder: choice, member: 'text' }];
    }),
  ended: ({ choices }) =>
    listOf(choices)
      .filter(({ finish_reason }) => typeof finish_reason === 'string')
      .map((choice, at) => `${indexOf(choice, at)}.`),
  called: () => [],
  callsOf: () => [],
};

/** How policies read embeddings. */
export const embeddingsTalk: Talk = { ...silentTalk, hides: ({ input }: Body) => hasTokens(input) };

/** True for a list of tokens, and for a list that holds one. */
function hasTokens(value: unknown): boolean {
  return Array.isArray(value) && value.some((one) => typeof one === 'number' || hasTokens(one));
}
