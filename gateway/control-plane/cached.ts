/**
 * Keeps an answer for a while; calls at the same time share one question. A failure, which is
 * undefined, is not kept: the last good answer stands in for it, and the next call asks again.
 */
export function cached<T>(
  fresh_ms: number,
  ask: () => Promise<T | undefined>,
): () => Promise<T | undefined> {
  let good: T | undefined;
  let fresh_until = Number.NEGATIVE_INFINITY;
  let asked: Promise<T | undefined> | undefined;
  const refresh = async (): Promise<T | undefined> => {
    const answer = await ask().finally(() => {
      asked = undefined;
    });
    if (answer === undefined) return good;
    good = answer;
    fresh_until = performance.now() + fresh_ms;
    return good;
  };
  return async () => {
    if (performance.now() < fresh_until) return good;
    asked ??= refresh();
    return asked;
  };
}
