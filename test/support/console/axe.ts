import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';

const source = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}

// What fades in or out has other colours half-way; what turns for ever is not waited for.
const stillness = `(async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const ends = ({ effect }) => effect?.getComputedTiming().iterations !== Infinity;
  for (let n = 0; n < 50; n += 1) {
    await frame();
    await frame();
    const moving = document.getAnimations().filter((one) => one.playState === 'running' && ends(one));
    if (moving.length === 0) return;
    await Promise.allSettled(moving.map((one) => one.finished));
  }
})()`;

/** What axe finds on a page once it stands still, in short. */
export async function violations(page: Page): Promise<string[]> {
  await page.evaluate(stillness);
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
