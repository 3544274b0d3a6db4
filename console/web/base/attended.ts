// A session ends after an hour without use, and a page that stands open reads on by itself: what it
// asks while nobody is there is no use.

/** Whoever did nothing for so long has left the page alone. */
const AWAY_MS = 60_000;

/** Whoever opened the page is there. */
let last_ms = performance.now();

/** Notes that somebody did something on this page. */
export function noteSign(): void {
  last_ms = performance.now();
}

/** True if somebody did something on this page within the last minute. */
export function isAttended(): boolean {
  return performance.now() - last_ms < AWAY_MS;
}
