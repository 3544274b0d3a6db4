import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { api, demo, picture, visit } from '../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const prices = async () => {
  const { models } = await api(demo().keys.platform_admin, 'GET', '/v1/model-pricing');
  return models as { provider: string; model: string; source: string; catalog: string }[];
};

test('an operator takes the prices of a seller over with one yes, and undoes it', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/prices?tab=catalogs');
  // The demo's own prices.
  await page.getByRole('row', { name: /genai-prices.*npm start/ }).waitFor();
  await page.getByText('mistral', { exact: true }).click();
  await page.getByRole('heading', { name: /^New: \d+/ }).waitFor();
  // What the catalog is unsure of is taken by a tick alone.
  const asks = page.getByRole('region', { name: 'Need your confirmation' });
  await asks.getByText('No amount is listed: ticked, it costs nothing.').first().waitFor();
  const take = page.getByRole('button', { name: /^Take \d+ prices over$/ });
  const before = Number(/\d+/.exec((await take.textContent()) ?? '')?.[0]);
  await asks.getByRole('checkbox').first().check();
  await page.getByRole('button', { name: `Take ${before + 1} prices over` }).waitFor();
  await asks.getByRole('checkbox').first().uncheck();
  await picture(page, 'price-proposal');
  expect(await violations(page)).toEqual([]);
  await take.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Take over' }).click();
  // Not the demo's own, which alone is there until the list is read again.
  const row = page
    .getByRole('row', { name: /genai-prices/ })
    .filter({ hasText: 'taken over', hasNotText: 'npm start' });
  await page.getByText(`${before} prices were taken over.`).waitFor();
  const imported = (await prices()).filter(({ provider }) => provider === 'mistral');
  expect(imported).toHaveLength(before);
  expect(imported.every(({ source }) => source === 'import')).toBe(true);
  await row.getByRole('button', { name: 'Undo' }).click();
  await page
    .getByRole('dialog')
    .getByText(/prices that .* took over from genai-prices/)
    .waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Undo' }).click();
  await page
    .getByRole('row', { name: /genai-prices/ })
    .filter({ hasText: 'undone' })
    .waitFor();
  expect((await prices()).filter(({ provider }) => provider === 'mistral')).toEqual([]);
  expect(complaints).toEqual([]);
  await context.close();
});
