import type { Page } from 'playwright-core';

/** Waits until a screen shows what it has read. */
export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  await page.locator('[role=status][aria-label^=Load]').first().waitFor({ state: 'detached' });
}
