import type { Locator, Page } from 'playwright-core';

/** Waits until a screen shows what it has read. */
export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  await page.locator('[role=status][aria-label^=Load]').first().waitFor({ state: 'detached' });
}

/** Presses what asks an address, and does something else before it is answered. */
export async function overtake(
  page: Page,
  address: string,
  { press, first }: { press: () => Promise<void>; first: () => Promise<void> },
): Promise<void> {
  await page.route(address, async (route) => {
    await first();
    await route.continue();
  });
  const late = page.waitForResponse(address);
  await press();
  await (await late).finished();
  // Two frames, by which the page has taken it in.
  const frames = 'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))';
  await page.evaluate(frames);
  await page.unroute(address);
}

/**
 * Presses "Try again" and waits for what is to come of it. News may make the page read again by
 * itself and take the button away before it is pressed: what is waited for is the same.
 */
export async function tryAgain(within: Page | Locator, outcome: Promise<void>): Promise<void> {
  const button = within.getByRole('button', { name: 'Try again' });
  await Promise.race([outcome, button.click()]);
  await outcome;
}
