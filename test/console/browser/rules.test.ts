import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { api, demo, picture, visit } from '../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

interface Rule {
  name: string;
  max_per_call: number;
  max_per_day: number;
}

async function rules(): Promise<Rule[]> {
  const path = '/v1/approval-rules?per_page=200';
  const found = await api<{ approval_rules: Rule[] }>(demo().keys.billing_admin, 'GET', path);
  return found.approval_rules;
}

test('a rule is made, changed and deleted by who decides about tickets', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'billing_admin' });
  await page.goto('/tickets');
  await page.getByRole('link', { name: 'Approval rules' }).click();
  await page.getByText('No rules').waitFor();
  await page.getByRole('button', { name: 'New rule' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Small calls');
  await dialog.getByLabel('The most that one call may cost').fill('0.05');
  await dialog.getByLabel('The most that it approves in a day').fill('20');
  expect(await violations(page)).toEqual([]);
  await picture(page, 'tickets-rule-new');
  await dialog.getByRole('button', { name: 'Make the rule' }).click();
  const row = page.getByRole('row', { name: 'Small calls' });
  await row.getByText('$0.00 of $20.00, 0 calls').waitFor();
  await picture(page, 'tickets-rules-made');
  expect(await rules()).toMatchObject([
    { name: 'Small calls', max_per_call: 0.05, max_per_day: 20 },
  ]);
  await row.getByRole('button', { name: 'Change' }).click();
  await dialog.getByLabel('The most that it approves in a day').fill('7.5');
  await dialog.getByRole('button', { name: 'Change the rule' }).click();
  await row.getByText('$0.00 of $7.50, 0 calls').waitFor();
  await row.getByRole('button', { name: 'Delete' }).click();
  await dialog.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No rules').waitFor();
  expect(await rules()).toEqual([]);
  expect(complaints).toEqual([]);
  await context.close();
});
