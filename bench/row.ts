/** What was measured, as a ratio within this run, and its bar; what has none is only shown. */
export interface Row {
  measure: string;
  figure: string;
  ratio?: number;
  bar?: string;
  isMet: boolean;
}
