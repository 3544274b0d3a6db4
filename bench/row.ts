/** A measure, as a ratio within this run, and its bar; one without a bar is only shown. */
export interface Row {
  measure: string;
  figure: string;
  ratio?: number;
  bar?: string;
  isMet: boolean;
}

/** The number below which so much of all numbers lies: 0.99 for p99. */
export function percentile(numbers: readonly number[], part: number): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length * part)] ?? 0;
}
