import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { tryAgain } from '../../support/console/look';
import {
  makeOrganization,
  makeTopUp,
  type TestOrganization,
} from '../../support/console/organization';
import { api, ask, demo, visit } from '../../support/console/visitor';

// What operators do, and what others see of that.

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Operated', 5)]);
});
afterAll(() => browser.close());

const admin = () => demo().keys.platform_admin;

test('an operator who looks at no organization makes a destination for the notices of the platform', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/settings?tab=notices');
  await page.getByRole('button', { name: 'New destination' }).click();
  const form = page.getByRole('dialog');
  await form.getByRole('textbox', { name: 'Name' }).fill('Watch');
  await form.getByLabel('Address').fill(`${demo().sandbox.notices_url}/slack/watch`);
  await form.getByRole('button', { name: 'Make it' }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByRole('row', { name: /Watch/ }).getByText('everything').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
  const { destinations } = await api<{
    destinations: { id: string; org_id: string | null; name: string; kinds: string[] }[];
  }>(admin(), 'GET', '/v1/notice-destinations');
  const made = destinations.find(({ name }) => name === 'Watch');
  expect(made).toMatchObject({ org_id: null, kinds: expect.arrayContaining(['outbox_parked']) });
  await api(admin(), 'DELETE', `/v1/notice-destinations/${made?.id}`);
});

test('a wallet is judged by the rules, and told in the zone, of its own organization', async () => {
  const own = await makeOrganization('Easily low', 5);
  const rules = `/v1/admin/organizations/${own.id}/wallet-settings`;
  await api(admin(), 'PUT', rules, { low_balance_threshold: 50, time_zone: 'Asia/Tokyo' });
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  for (const acting of [null, org.id]) {
    expect(await ask(page, 'PUT', '/api/session/org', { org_id: acting })).toBe(204);
    await page.goto(`/wallets/${own.wallet_id}`);
    await page.getByText('low', { exact: true }).waitFor();
    const row = page.getByRole('row', { name: /Credited by hand/ });
    await row.locator('time').first().hover();
    await page.getByRole('tooltip').getByText('(Asia/Tokyo)').waitFor();
  }
  expect(complaints).toEqual([]);
  await context.close();
});

test('what an operator did is theirs in words, and the id of their key can be copied', async () => {
  const access_key = org.keys.billing_admin;
  const { page, context, complaints } = await visit(browser, { access_key });
  await page.goto(`/wallets/${org.wallet_id}`);
  const row = page.getByRole('row', { name: /Credited by hand/ });
  await row.getByText('an operator').waitFor();
  await row.getByRole('button', { name: /^key_.*: copy key_/ }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('a link to a payment that does not say when it was made leads an operator to all of it', async () => {
  const id = await makeTopUp(org, 12);
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  expect(await ask(page, 'PUT', '/api/session/org', { org_id: org.id })).toBe(204);
  await page.goto(`/wallets/${org.wallet_id}?type=payment_credit`);
  await page.getByRole('link', { name: 'the payment' }).click();
  await page.waitForURL(`**/payments/${id}`);
  await page.getByRole('heading', { name: 'Top-up of $12.00' }).waitFor();
  // What only operators see, and do.
  await page.getByRole('row', { name: /Taken/ }).getByText('$12.00').waitFor();
  await page.getByRole('button', { name: 'Refund' }).waitFor();
  await page.goto('/payments/pay_none');
  await page.getByRole('alert').getByText('No payment session').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('an operator finds an organization, renames, suspends and archives it, and takes that back', async () => {
  const name = `Shelved ${Date.now()}`;
  await api(admin(), 'POST', '/v1/admin/organizations', { name });
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/organizations');
  await page.getByRole('textbox', { name: 'Name' }).fill(name);
  await page.waitForURL('**q=**');
  const row = page.getByRole('row', { name });
  const form = page.getByRole('dialog');
  const act = async (what: string) => {
    await row.getByRole('button', { name: 'Change' }).click();
    await page.getByRole('menuitem', { name: what, exact: true }).click();
    if (what === 'Suspend') await form.getByLabel('Reason').fill('unpaid');
    if (what === 'Rename') await form.getByLabel('Name').fill(`${name} anew`);
    const button = form.getByRole('button', { name: what, exact: true });
    if (what === 'Archive') {
      await form.getByLabel(/^Type/).fill(name);
      expect(await button.isDisabled()).toBe(true);
      await form.getByLabel(/^Type/).fill(`${name} anew`);
    }
    await button.click();
    await form.waitFor({ state: 'detached' });
  };
  await act('Rename');
  await row.getByText(`${name} anew`).waitFor();
  await act('Suspend');
  await row.getByText('unpaid').waitFor();
  await act('Reactivate');
  await row.getByText('active').waitFor();
  await act('Archive');
  await row.waitFor({ state: 'detached' });
  const found = `/organizations?q=${encodeURIComponent(name)}`;
  await page.goto(`${found}&status=archived`);
  await act('Restore');
  await row.waitFor({ state: 'detached' });
  await page.goto(found);
  await row.getByText('active').waitFor();
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
  await context.close();
});

test('whoever belongs to a suspended organization is told so, goes on once it is not, and can leave', async () => {
  const own = await makeOrganization('Suspended', 5);
  const at = `/v1/admin/organizations/${own.id}`;
  const { page, context } = await visit(browser, { access_key: own.keys.owner });
  await page.getByRole('button', { name: 'owner of Suspended' }).waitFor();
  await api(admin(), 'POST', `${at}/suspend`, { reason: 'unpaid' });
  await page.goto('/wallets');
  await page
    .getByRole('alert')
    .getByText(/suspended/)
    .waitFor();
  expect(await page.getByText('You may not see this').count()).toBe(0);
  expect(await violations(page)).toEqual([]);
  await api(admin(), 'POST', `${at}/unsuspend`);
  await tryAgain(page, page.getByRole('heading', { name: 'Wallets' }).waitFor());
  await api(admin(), 'POST', `${at}/suspend`, { reason: 'unpaid' });
  await page.goto('/wallets');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.waitForURL('**/login');
  await page.getByLabel('Access key or one-time code').waitFor();
  expect(await context.cookies()).toEqual([]);
  await context.close();
});
