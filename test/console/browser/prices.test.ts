import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { overtake, settled } from '../../support/console/look';
import { makeCall, makeOrganization } from '../../support/console/organization';
import { api, ask, demo, picture, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

async function search(page: Page, words: string): Promise<void> {
  await page.getByLabel('Name').fill(words);
  await until(() => page.url().includes('q='));
}

test('a new price, a planned version of it and its end are each seen in the list', async () => {
  const model = `console-test-${Date.now()}`;
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/prices');
  await page.getByRole('button', { name: 'New price' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Provider', exact: true }).fill('openai');
  await dialog.getByRole('textbox', { name: 'Model', exact: true }).fill(model);
  await dialog
    .getByRole('textbox', { name: 'Million input tokens', exact: true })
    .fill('0.0000000001');
  // What the API could not keep to its last digit is not sent.
  await dialog.getByText('This has more digits than an amount can have.').waitFor();
  expect(await dialog.getByRole('button', { name: 'Save' }).isDisabled()).toBe(true);
  await dialog.getByRole('textbox', { name: 'Million input tokens', exact: true }).fill('0.125');
  await dialog.getByLabel('Million output tokens').fill('0,5');
  expect(await violations(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.waitFor({ state: 'detached' });
  await search(page, model);
  const rows = page.getByRole('row', { name: new RegExp(model) });
  await rows.getByText('0.125').waitFor();
  await rows.getByRole('button', { name: 'Change' }).click();
  await dialog.getByLabel('Million output tokens').fill('0.75');
  await dialog.getByLabel('In force from').fill('2099-01-01T00:00');
  await dialog.getByRole('button', { name: 'Save' }).click();
  const planned = rows.filter({ hasText: 'planned' });
  await planned.getByText('0.75').waitFor();
  await planned.getByRole('button', { name: 'Take back' }).click();
  await dialog.getByRole('button', { name: 'Take back' }).click();
  await planned.waitFor({ state: 'detached' });
  await rows.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByLabel(`Type ${model} to go on`).fill(model);
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No price of this name').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('a change is tried on the calls of the last week, and nothing is changed by that', async () => {
  const org = await makeOrganization('Priced', 5);
  await makeCall(org, 'What did I cost?');
  const model = demo().models[0] as string;
  const list = () => api(demo().keys.platform_admin, 'GET', '/v1/admin/model-pricing');
  const before = await list();
  const { page, context } = await visit(browser, { role: 'platform_admin', scheme: 'dark' });
  await page.goto(`/prices?q=${model}`);
  await page
    .getByRole('row')
    .filter({ has: page.getByText(model, { exact: true }) })
    .getByRole('button', { name: 'Change' })
    .click();
  const dialog = page.getByRole('dialog');
  const output = dialog.getByLabel('Million output tokens');
  const tryIt = dialog.getByRole('button', { name: 'Try it on the calls' });
  const result = dialog.getByText('What it would have cost');
  await output.fill('800');
  // An answer that comes after another amount was typed is of the one before.
  await overtake(page, '**/prices/preview', {
    press: () => tryIt.click(),
    first: () => output.fill('900'),
  });
  expect(await result.count()).toBe(0);
  await tryIt.click();
  await result.waitFor();
  await dialog.getByText(/of them more than they did/).waitFor();
  await picture(page, 'price-preview-dark');
  expect(await violations(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  expect(await list()).toEqual(before);
  await context.close();
});

test('an operator sets a rate; members see prices and no rates', async () => {
  const { page, context } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/prices?tab=rates');
  await page.getByRole('button', { name: 'New currency' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Currency').fill('isk');
  await dialog.getByLabel('Units for 1 USD').fill('139.25');
  await dialog.getByRole('button', { name: 'Set' }).click();
  await page.getByRole('row', { name: 'ISK 139.25' }).waitFor();
  // Thousands stand apart, and the field says so before anything is sent.
  await page.getByRole('button', { name: 'New currency' }).click();
  await dialog.getByLabel('Currency').fill('vnd');
  await dialog.getByLabel('Units for 1 USD').fill('25,400');
  await dialog.getByText('= 25,400', { exact: true }).waitFor();
  await dialog.getByRole('button', { name: 'Set' }).click();
  await page.getByRole('row', { name: 'VND 25400' }).waitFor();
  expect(await violations(page)).toEqual([]);
  await context.close();
  const other = await visit(browser, { role: 'member' });
  await other.page.goto('/prices');
  await settled(other.page);
  await other.page.getByText(demo().models[0] as string, { exact: true }).waitFor();
  expect(await other.page.getByRole('tab').count()).toBe(0);
  expect(await other.page.getByRole('button', { name: 'Change' }).count()).toBe(0);
  await other.context.close();
});

test('an operator gives an organization a discount, which its billing people see beside prices and calls', async () => {
  const org = await makeOrganization('Discounted', 5);
  const operator = await visit(browser, { role: 'platform_admin' });
  expect(await ask(operator.page, 'PUT', '/api/session/org', { org_id: org.id })).toBe(204);
  await operator.page.goto('/settings?tab=organization');
  const factor = operator.page.getByLabel('Factor on prices');
  expect(await factor.inputValue()).toBe('1');
  await operator.page.getByText('Calls cost what the price list says.').waitFor();
  await factor.fill('0.76');
  await operator.page.getByText('Calls cost 24 per cent less').waitFor();
  await picture(operator.page, 'settings-factor');
  await operator.page.getByRole('button', { name: 'Save', exact: true }).click();
  await operator.page.getByText('The settings are saved.').waitFor();

  const id = await makeCall(org, 'What does this cost?');
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  const settlement = () =>
    api<{ settlement: object | null }>(org.keys.billing_admin, 'GET', `/v1/requests/${id}`);
  await until(async () => (await settlement()).settlement !== null);
  await page.goto(`/requests/${id}`);
  await page.getByText('Your organization paid × 0.76 of the price list.').waitFor();
  await page.getByRole('table', { name: 'Price lines' }).waitFor();
  expect(await page.getByText('The lines add up to').count()).toBe(0);
  await page.goto('/prices');
  await page.getByText('Your organization pays × 0.76 of each price.').waitFor();
  await page.goto('/settings?tab=organization');
  expect(await page.getByLabel('Factor on prices').inputValue()).toBe('0.76');
  expect(await page.getByLabel('Factor on prices').isEditable()).toBe(false);
  expect(await violations(page)).toEqual([]);
  expect([...complaints, ...operator.complaints]).toEqual([]);
  await operator.context.close();
  await context.close();
});
