interface Priced {
  provider: string;
  model: string;
  output_per_1m: number | null;
}

/** What stands in a snippet when no model is known to work. */
export const NO_MODEL = 'NAME-A-MODEL';

/**
 * Models for the examples of a key, by the wire that a program speaks; absent where none that the
 * key may call is served there.
 */
export interface Models {
  chat: string;
  responses?: string | undefined;
  messages?: string | undefined;
}

/**
 * For each wire the first priced model that the key may call, that answers in words, and that is
 * likely served there: Claude on Messages, all others on chat and Responses. Chat takes Claude too,
 * by the unified route. Without a priced one the same of those that the key names whole, else a
 * word to be replaced.
 * @param allowed of a key: names, of which a star may end one; null: every model.
 */
export function modelsFor(
  priced: readonly Priced[],
  allowed: readonly string[] | null | undefined,
): Models {
  const names = priced
    .filter(({ output_per_1m }) => (output_per_1m ?? 0) > 0)
    .map(({ model }) => model)
    .filter((model) => !allowed || allowed.some((one) => fits(one, model)));
  if (names.length === 0) names.push(...(allowed ?? []).filter((one) => !one.includes('*')));
  const [any] = names;
  if (any === undefined) return { chat: NO_MODEL, responses: NO_MODEL, messages: NO_MODEL };
  const other = names.find((model) => !isClaude(model));
  return { chat: other ?? any, responses: other, messages: names.find(isClaude) };
}

/** True for a name of a model that chat completions reach by the unified route alone. */
export function isClaude(model: string): boolean {
  return /claude/i.test(model);
}

function fits(allowed: string, model: string): boolean {
  return allowed.endsWith('*') ? model.startsWith(allowed.slice(0, -1)) : model === allowed;
}
