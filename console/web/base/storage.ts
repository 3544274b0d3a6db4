// A browser may forbid storage, or have it full: nothing that the console needs stands there alone.

/** What this browser has kept under a name; null if nothing, or if it keeps nothing. */
export function read(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** Keeps a text in this browser, or null to forget it. */
export function write(name: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, value);
  } catch {
    // Then it is kept until the page is left.
  }
}

/** The same of this tab alone. */
export function readTab(name: string): string | null {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

/** The same for this tab alone. */
export function writeTab(name: string, value: string | null): void {
  try {
    if (value === null) sessionStorage.removeItem(name);
    else sessionStorage.setItem(name, value);
  } catch {
    // Then it is not kept.
  }
}

/** Forgets what this tab has kept for itself: whoever leaves, leaves nothing to the next person. */
export function forgetTab(): void {
  try {
    sessionStorage.clear();
  } catch {
    // Then nothing is kept.
  }
}
