const REMEMBERED_MAX = 20_000;

/**
 * A function of characters that remembers its answers for those it saw lately; most texts use few.
 */
export function remembered(answerFor: (code: number) => string): (code: number) => string {
  const known = new Map<number, string>();
  return (code) => {
    const before = known.get(code);
    if (before !== undefined) return before;
    const answer = answerFor(code);
    if (known.size >= REMEMBERED_MAX) known.clear();
    known.set(code, answer);
    return answer;
  };
}
