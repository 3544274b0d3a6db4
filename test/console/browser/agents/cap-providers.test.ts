import type { Browser } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { violations } from '../../../support/console/axe';
import { makeOrganization, type TestOrganization } from '../../../support/console/organization';
import { api, visit } from '../../../support/console/visitor';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Unpriced', 1)]);
});
afterAll(() => browser.close());

test('a cap says why there is no provider to choose', async () => {
  const route = `/v1/organizations/${org.id}/agents`;
  const agent = await api<{ id: string }>(org.keys.owner, 'POST', route, { name: 'Unpriced' });
  const { page, context } = await visit(browser, { access_key: org.keys.owner });
  const error = { code: 'internal_error', message: 'This is a fault of the service.' };
  await page.route('**/api/prices', (one) =>
    one.fulfill({ status: 500, json: { type: 'error', error } }),
  );
  await page.goto(`/agents/${agent.id}`);
  const form = page.getByRole('dialog');
  const provider = form.getByRole('combobox', { name: 'Provider' });
  await page.getByRole('button', { name: 'New cap' }).click();
  await form.getByText('This is a fault of the service.').waitFor();
  expect(await violations(page)).toEqual([]);
  await page.unrouteAll({ behavior: 'wait' });
  await page.reload();
  await page.getByRole('button', { name: 'New cap' }).click();
  await provider.fill('nobody has this');
  await page.getByText('No provider with a price has this name').waitFor();
  expect(await form.getByText('This is a fault of the service.').count()).toBe(0);
  await context.close();
});
