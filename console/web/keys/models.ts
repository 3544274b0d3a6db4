interface Priced {
  provider: string;
  model: string;
  output_per_1m: number | null;
}

/** What stands in a snippet when no model is known to work. */
export const NO_MODEL = 'NAME-A-MODEL';

/**
 * A model for the examples of a key: the first priced one that it may call and that answers in
 * words. Without such a one, the first that the key names whole, else a word to be replaced.
 * @param allowed of a key: names, of which a star may end one; null: every model.
 */
export function modelFor(
  priced: readonly Priced[],
  allowed: readonly string[] | null | undefined,
): string {
  const answers = priced.filter(({ output_per_1m }) => (output_per_1m ?? 0) > 0);
  const found = answers.find(({ model }) => !allowed || allowed.some((one) => fits(one, model)));
  return found?.model ?? allowed?.find((one) => !one.includes('*')) ?? NO_MODEL;
}

function fits(allowed: string, model: string): boolean {
  return allowed.endsWith('*') ? model.startsWith(allowed.slice(0, -1)) : model === allowed;
}
