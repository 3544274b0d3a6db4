import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { settled } from '../../support/console/look';
import { api, demo, picture, visit } from '../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const path = '/settings?tab=provider-keys';
const secret = (word: string) => `sk-console-${word}-0123456789abcdef`;

test('an own key is brought, changed, rotated and revoked, and is nowhere to be read', async () => {
  const { keys, organization_id } = demo();
  const settings = `/v1/admin/organizations/${organization_id}/wallet-settings`;
  await api(keys.platform_admin, 'PUT', settings, { own_key_factor_min: 0.25 });
  const { page, context, complaints } = await visit(browser, { role: 'billing_admin' });
  await page.goto(path);
  await page.getByText('No own keys').waitFor();
  await page.getByRole('button', { name: 'Bring a key' }).click();
  const form = page.getByRole('dialog');
  await form.getByRole('combobox', { name: 'Provider' }).fill('anth');
  await page.getByRole('option', { name: 'anthropic' }).click();
  await form.locator('input[type=password]').fill(secret('first'));
  await form.getByLabel('Factor on prices').fill('0.1');
  await form.getByRole('button', { name: 'Keep it' }).click();
  await form.getByRole('alert').getByText('least factor').waitFor();
  await form.getByLabel('Factor on prices').fill('0.5');
  await form.getByRole('button', { name: 'Keep it' }).click();
  await form.waitFor({ state: 'detached' });
  const row = page.getByRole('row', { name: /anthropic/ });
  await row.getByText('× 0.5').waitFor();
  await row.getByText('…cdef').waitFor();

  await row.getByRole('button', { name: 'Change' }).click();
  await form.getByLabel('Factor on prices').fill('1.25');
  await form.getByRole('combobox', { name: 'A call whose key is refused' }).click();
  await page.getByRole('option', { name: "is served by the platform's key" }).click();
  await form.getByRole('button', { name: 'Change' }).click();
  await row.getByText('× 1.25').waitFor();
  await row.getByText('the platform serves').waitFor();
  await form.waitFor({ state: 'detached' });

  await row.getByRole('button', { name: 'Rotate' }).click();
  await form.locator('input[type=password]').fill(`${secret('second')}-next`);
  await form.getByRole('button', { name: 'Rotate' }).click();
  await row.getByText('…next').waitFor();
  await form.waitFor({ state: 'detached' });
  await picture(page, 'provider-keys-one');
  expect(await page.content()).not.toContain('sk-console-');

  await row.getByRole('button', { name: 'Revoke' }).click();
  await form.getByRole('button', { name: 'Revoke' }).click();
  await row.getByText('revoked').waitFor();
  expect(await row.getByRole('button').count()).toBe(0);
  await api(keys.platform_admin, 'PUT', settings, { own_key_factor_min: 1 });
  expect(complaints).toEqual([]);
  await context.close();
});

test('who may not manage money is told so, and has no such tab', async () => {
  const { page, context } = await visit(browser, { role: 'member' });
  await page.goto(path);
  await page.getByText('You may not see this').waitFor();
  expect(await page.getByRole('tab', { name: 'Provider keys' }).count()).toBe(0);
  await context.close();
});

test.each([
  ['light', 1_200],
  ['dark', 1_200],
  ['light', 320],
  ['dark', 320],
] as const)('the dialog is whole in %s colours at %i px', async (scheme, width) => {
  const { page, context, complaints } = await visit(browser, { role: 'owner', scheme, width });
  await page.goto(path);
  await settled(page);
  await page.getByRole('button', { name: 'Bring a key' }).click();
  await page.getByRole('dialog').locator('input[type=password]').fill('short');
  expect(await page.getByRole('button', { name: 'Keep it' }).isDisabled()).toBe(true);
  await picture(page, `provider-keys-form-${scheme}-${width}`);
  expect(await violations(page)).toEqual([]);
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await picture(page, `provider-keys-list-${scheme}-${width}`);
  expect(complaints).toEqual([]);
  await context.close();
});
