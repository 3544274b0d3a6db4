import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { violations } from '../../../support/console/axe';
import {
  makeCall,
  makeOrganization,
  makeTopUp,
  type TestOrganization,
} from '../../../support/console/organization';
import { api, demo, visit } from '../../../support/console/visitor';

// What whoever keeps the books finds in the lists, and takes out of them.

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Bookkeepers', 5)]);
});
afterAll(() => browser.close());

const finance = () => visit(browser, { access_key: org.keys.owner });

/** The lines of the file that a button makes. */
async function linesOf(page: Page, button = 'CSV of all rows'): Promise<string[]> {
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: button }).first().click(),
  ]);
  return readFileSync(await file.path(), 'utf8')
    .trimEnd()
    .split('\r\n');
}

test('a list of payments and its file say what was credited, what went back, and to which wallet', async () => {
  const paid = await makeTopUp(org, 40);
  await api(demo().keys.platform_admin, 'POST', '/v1/admin/payments/refund', {
    payment_session_id: paid,
    reason: 'bought twice',
  });
  const { page, context, complaints } = await finance();
  await page.goto('/payments');
  const row = page.getByRole('row', { name: /\$40\.00/ });
  await row.getByRole('cell', { name: 'refunded' }).waitFor();
  expect(await row.getByText('$40.00').count()).toBe(3);
  await row.getByRole('link', { name: org.name, exact: true }).waitFor();
  const [titles = '', line = ''] = await linesOf(page);
  const cells = Object.fromEntries(
    titles.split(',').map((title, place) => [title, line.split(',')[place]]),
  );
  expect(cells).toMatchObject({
    ...{ wallet_id: org.wallet_id, wallet_of: org.name },
    ...{ credited_amount: '40', refunded_amount: '40', refund_status: 'succeeded' },
  });
  // One word for a state, in the filter and in the table.
  await page.getByRole('combobox', { name: 'State' }).click();
  await page.getByRole('option', { name: 'waits for the buyer' }).waitFor();
  await page.getByRole('option', { name: 'refunded' }).click();
  await page.waitForURL('**status=refunded**');
  await row.waitFor();
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await context.close();
});

test.each([
  ['ledger', (): string => `/wallets/${org.wallet_id}`, 'No entries'],
  ['tickets', (): string => '/tickets?status=all', 'No tickets'],
  ['audit log', (): string => '/settings?tab=audit', 'No such change'],
  ['events', (): string => '/events', 'Nothing of this kind'],
] as const)('the %s is of the days that its address names', async (_, path, none) => {
  await makeCall(org, 'of today');
  const { page, context, complaints } = await finance();
  await page.goto(path());
  const before = page.getByLabel(/^Before, by/);
  await before.fill('2020-01-01');
  await page.waitForURL('**before=2020-01-01**');
  await page.getByText(none).waitFor();
  await before.fill('');
  await page.waitForURL((url) => !url.search.includes('before'));
  await page.getByLabel(/^From, by/).fill('2099-01-01');
  await page.waitForURL('**from=2099-01-01**');
  await page.getByText(none).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('the audit log is of one person, and says names, times and amounts as people write them', async () => {
  const { owner, billing_admin } = org.keys;
  const team = await api<{ id: string }>(owner, 'POST', `/v1/organizations/${org.id}/teams`, {
    name: 'Audited',
  });
  await api(billing_admin, 'POST', '/v1/budgets', {
    ...{ owner_type: 'team', owner_id: team.id, window: 'month', limit: 12.5 },
  });
  const { page, context, complaints } = await finance();
  await page.goto('/settings?tab=audit');
  const rows = page.getByRole('table', { name: 'Changes' }).locator('tbody tr');
  await rows.filter({ hasText: 'team created' }).waitFor();
  await page.getByRole('combobox', { name: 'Person' }).fill('billing_admin');
  await page.getByRole('option', { name: `billing_admin of ${org.name}` }).click();
  await page.waitForURL('**actor=user_**');
  await rows.filter({ hasText: 'team created' }).waitFor({ state: 'detached' });
  await page.reload();
  const changed = rows.filter({ hasText: 'budget' });
  await changed.getByRole('button', { name: /^What changed/ }).click();
  const fields = page.getByRole('table', { name: 'Before and after' });
  await fields.getByRole('row', { name: /owner/ }).getByText('Audited').waitFor();
  await fields.getByRole('row', { name: /limit/ }).getByText('$12.50').waitFor();
  expect(await fields.getByText(/nanos|_id|T\d\d:\d\d/).count()).toBe(0);
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await context.close();
});
