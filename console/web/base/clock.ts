// The browser's clock may be minutes wrong, so what counts down goes by the server's, which each
// answer names.

let ahead_ms = 0;

/** Notes the server's clock, as the Date of an answer says it. */
export function noteServerTime(date: string | null): void {
  const server = date === null ? Number.NaN : Date.parse(date);
  if (!Number.isFinite(server)) return;
  const apart = server - Date.now();
  // The header has seconds: less than two are no difference.
  ahead_ms = Math.abs(apart) < 2_000 ? 0 : apart;
}

/** Milliseconds since 1970 by the server's clock. */
export function serverNow(): number {
  return Date.now() + ahead_ms;
}
