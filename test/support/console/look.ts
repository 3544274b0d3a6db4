import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';

const axe_source = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}

/** What axe finds on the page as it is, in short. */
export async function violations(page: Page): Promise<string[]> {
  // The policy of the page lets no script in but its own, so it comes by the debugger.
  await page.evaluate(axe_source);
  const found = await page.evaluate(() =>
    (
      globalThis as unknown as { axe: { run: () => Promise<{ violations: Violation[] }> } }
    ).axe.run(),
  );
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}

/** Waits until a screen shows what it has read. */
export async function settled(page: Page): Promise<void> {
  await page.getByRole('heading', { level: 1 }).first().waitFor();
  await page.locator('[role=status][aria-label^=Load]').first().waitFor({ state: 'detached' });
}
