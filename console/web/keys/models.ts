interface Priced {
  provider: string;
  model: string;
  output_per_1m: number | null;
}

/** What stands in a snippet when no model is known to work. */
export const NO_MODEL = 'NAME-A-MODEL';

/** Models for the examples of a key, by the wire that a program speaks. */
export interface Models {
  chat: string;
  messages: string;
}

/**
 * For each wire the first priced model that the key may call, that answers in words, and that is
 * likely served there: Claude on Messages, all others on chat. Without such a one the first of the
 * other wire, then the first that the key names whole, else a word to be replaced.
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
  const any = names[0] ?? allowed?.find((one) => !one.includes('*')) ?? NO_MODEL;
  return {
    chat: names.find((model) => !isClaude(model)) ?? any,
    messages: names.find(isClaude) ?? any,
  };
}

/** True for a name of a model that chat completions reach by the unified route alone. */
export function isClaude(model: string): boolean {
  return /claude/i.test(model);
}

function fits(allowed: string, model: string): boolean {
  return allowed.endsWith('*') ? model.startsWith(allowed.slice(0, -1)) : model === allowed;
}
