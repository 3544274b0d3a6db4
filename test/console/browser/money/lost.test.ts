import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { makeOrganization } from '../../../support/console/organization';
import { api, visit } from '../../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const ALLOCATE = '**/api/wallets/allocate';

/** The answer to the next gift is lost on its way, though it is done. */
const loseNext = (page: Page) =>
  page.evaluate(`(() => {
    const real = window.fetch;
    window.fetch = async (...given) => {
      const answer = await real(...given);
      if (!String(given[0]).endsWith('/api/wallets/allocate')) return answer;
      window.fetch = real;
      throw new TypeError('The connection was lost.');
    };
  })()`);

/** An organization of teams with 1 each, before somebody who bills. */
async function atWallets(name: string, ...teams: string[]) {
  const org = await makeOrganization(name, 500);
  for (const team of teams) {
    const route = `/v1/organizations/${org.id}/teams`;
    const { id } = await api<{ id: string }>(org.keys.owner, 'POST', route, { name: team });
    const given = { team_id: id, amount: 1 };
    await api(org.keys.billing_admin, 'POST', '/v1/wallets/allocate', given);
  }
  const seen = await visit(browser, { access_key: org.keys.billing_admin });
  await seen.page.goto('/wallets');
  return { org, ...seen };
}

/** The dialog that gives a team so much. */
async function giving(page: Page, team: string, amount: string) {
  const row = page.getByRole('row', { name: team });
  await row.getByRole('button', { name: 'Give', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: `Give money to ${team}` });
  await dialog.getByLabel('Amount in USD').fill(amount);
  return { dialog, give: dialog.getByRole('button', { name: 'Give', exact: true }) };
}

test.each([
  [401, 'invalid_credential'],
  [429, 'rate_limit_exceeded'],
])('a gift whose answer was lost is not given again after %i', async (status, code) => {
  const team = `Given once ${status}`;
  const { org, page, context } = await atWallets(`Lost ${status}`, team);
  const { dialog, give } = await giving(page, team, '100');
  await loseNext(page);
  await give.click();
  await dialog.getByText(/^The console cannot be reached/).waitFor();
  const json = { type: 'error', error: { code, message: `It is ${code}.`, param: null } };
  const refused = page.waitForResponse(ALLOCATE);
  await page.route(ALLOCATE, (route) => route.fulfill({ status, json }), { times: 1 });
  await give.click();
  expect((await refused).status()).toBe(status);
  await dialog.getByText(`It is ${code}.`).waitFor();
  await give.click();
  await dialog.waitFor({ state: 'detached' });
  const route = `/v1/wallets/${org.wallet_id}`;
  const { balance } = await api<{ balance: number }>(org.keys.billing_admin, 'GET', route);
  expect(balance).toBe(399);
  await context.close();
});

test('a dialog that is sending is not closed, and what it did names its wallet', async () => {
  const { page, context } = await atWallets('Senders', 'First of two', 'Second of two');
  const { dialog, give } = await giving(page, 'First of two', '2');
  let goOn = () => {};
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  await page.route(ALLOCATE, async (route) => {
    await held;
    await route.continue();
  });
  const sent = page.waitForRequest(ALLOCATE);
  await give.click();
  await sent;
  await page.keyboard.press('Escape');
  expect(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true);
  expect(await dialog.getByRole('button', { name: 'Close' }).count()).toBe(0);
  expect(await dialog.isVisible()).toBe(true);
  goOn();
  await page.getByText('$2.00 was given to First of two.').waitFor();
  await dialog.waitFor({ state: 'detached' });
  const next = await giving(page, 'Second of two', '3');
  await page.keyboard.press('Escape');
  await next.dialog.waitFor({ state: 'detached' });
  await context.close();
});

test('a buyer of whom another amount was taken is not invited to pay again', async () => {
  const { page, context } = await visit(browser, { role: 'billing_admin' });
  const session = {
    ...{ id: 'pay_amiss', user_id: null, provider: 'payment_provider_a', surface: 'console' },
    ...{ amount: 25, currency: 'USD', status: 'failed', provider_order_id: 'order_amiss' },
    ...{ provider_capture_id: 'cap', created_at: '2026-11-30T10:00:00.000Z', wallet_id: 'wal_1' },
    ...{ target_wallet_owner_type: 'organization', target_wallet_owner_id: null },
    ...{ credited_amount: 0, refunded_amount: 0, refund_status: null, late: false },
    ...{ error_code: 'amount_mismatch', error_message: '24 USD were taken.' },
  };
  await page.route('**/api/payments/sessions?*', (route) =>
    route.fulfill({ json: { sessions: [session], has_more: false, total: 1 } }),
  );
  await page.goto('/top-up/return?token=order_amiss');
  await page.getByText('Your payment was taken, but not credited').waitFor();
  const link = page.getByRole('link', { name: 'See this payment' });
  expect(await link.getAttribute('href')).toBe('/payments/pay_amiss');
  expect(await page.getByRole('link', { name: 'Try again' }).count()).toBe(0);
  await context.close();
});
