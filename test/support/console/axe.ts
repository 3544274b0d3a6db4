import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';

const source = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}

/** What axe finds on a page as it is, in short. */
export async function violations(page: Page): Promise<string[]> {
  // The policy of the page lets no script in but its own, so it comes by the debugger.
  await page.evaluate(source);
  const found = await page.evaluate(() => {
    const { axe } = globalThis as unknown as {
      axe: { run: () => Promise<{ violations: Violation[] }> };
    };
    return axe.run();
  });
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}
