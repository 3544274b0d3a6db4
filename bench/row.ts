/** A measure, as a ratio within this run, and its bar; one without a bar is only shown. */
export interface Row {
  measure: string;
  figure: string;
  ratio?: number;
  bar?: string;
  isMet: boolean;
}
