import type { Browser } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { violations } from '../../../support/console/axe';
import { settled } from '../../../support/console/look';
import {
  makeOrganization,
  makeTopUp,
  type TestOrganization,
} from '../../../support/console/organization';
import { api, ask, demo, picture, visit } from '../../../support/console/visitor';
import { until } from '../../../support/until';

let browser: Browser;
let org: TestOrganization;
let paid: string;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Payers', 5)]);
  paid = await makeTopUp(org, 25);
});
afterAll(() => browser.close());

/** An operator who looks at the organization. */
async function operator() {
  const seen = await visit(browser, { role: 'platform_admin' });
  expect(await ask(seen.page, 'PUT', '/api/session/org', { org_id: org.id })).toBe(204);
  return seen;
}

describe.each(['light', 'dark'] as const)('in %s colours', (scheme) => {
  test('a billing admin finds a top-up and reads what became of it', async () => {
    const access_key = org.keys.billing_admin;
    const { page, context, complaints } = await visit(browser, { access_key, scheme });
    await page.goto('/payments?status=completed');
    const row = page.getByRole('row', { name: /\$25\.00/ });
    await row.getByText(`billing_admin of ${org.name}`).waitFor();
    await row.getByRole('link', { name: '$25.00' }).click();
    await page.waitForURL(`**/payments/${paid}`);
    await settled(page);
    await page.getByText('$25.00 came into the wallet').waitFor();
    await page.getByText('which had $30.00 then').waitFor();
    // Whoever may not refund is told who does.
    expect(await page.getByRole('button', { name: 'Refund' }).count()).toBe(0);
    await page.getByText('Refunds are made by an operator').waitFor();
    await picture(page, `payment-${scheme}`);
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await context.close();
  });
});

test('an operator refunds spent credit once they have read that it was spent', async () => {
  const { keys, wallet_id } = org;
  const team = await api<{ id: string }>(keys.owner, 'POST', `/v1/organizations/${org.id}/teams`, {
    name: 'Takers',
  });
  await api(keys.billing_admin, 'POST', '/v1/wallets/allocate', { team_id: team.id, amount: 20 });
  const { page, context, complaints } = await operator();
  await page.goto('/payments');
  await page
    .getByRole('row', { name: /\$25\.00/ })
    .getByRole('link')
    .first()
    .click();
  await page.getByRole('button', { name: 'Refund' }).click();
  const dialog = page.getByRole('dialog');
  const refund = dialog.getByRole('button', { name: 'Refund' });
  expect(await refund.isDisabled()).toBe(true);
  await dialog.getByLabel('Reason').fill('bought twice');
  await refund.click();
  // 10 of the 30 are left, so 15 of the 25 are gone.
  await dialog.getByText('Nothing was refunded: $15.00 of this top-up has been spent.').waitFor();
  await picture(page, 'refund-spent');
  expect(await violations(page)).toEqual([]);
  const balance = async () =>
    (await api<{ balance: number }>(keys.billing_admin, 'GET', `/v1/wallets/${wallet_id}`)).balance;
  expect(await balance()).toBe(10);
  expect(await refund.isDisabled()).toBe(true);
  await dialog.getByLabel('Refund all of it, into debt').check();
  await refund.click();
  await dialog.waitFor({ state: 'detached' });
  // The refusal is one, too.
  await page.getByText('A refund was asked for: bought twice').last().waitFor();
  await page.getByText('$25.00 went out of the wallet').waitFor();
  expect(await balance()).toBe(-15);
  expect(complaints).toEqual([]);
  await context.close();
});

test('an operator says how a refund ended of which nothing was heard for days', async () => {
  const { page, context } = await operator();
  const content = `
    const ask = window.fetch;
    window.fetch = async (...given) => {
      const answer = await ask(...given);
      if (!String(given[0]?.url ?? given[0]).includes('/api/admin/payments?') || !answer.ok) return answer;
      const { sessions, ...rest } = await answer.json();
      const hanging = {
        id: 'ref_1', status: 'pending', amount: 25, currency: 'USD', reason: 'bought twice',
        requested_by: 'key_1', provider_refund_id: null, error_message: null, ended_by: null,
        end_note: null, created_at: new Date(Date.now() - 3 * 86400000).toISOString(),
      };
      const [first, ...others] = sessions;
      const read = { ...rest, sessions: [{ ...first, status: 'completed', refunds: [hanging] }, ...others] };
      return new Response(JSON.stringify(read), { status: 200, headers: answer.headers });
    };`;
  await page.addInitScript({ content });
  await page.goto('/payments');
  await page.getByRole('button', { name: 'Decide' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Look the refund up at the provider first').waitFor();
  await dialog.getByRole('combobox', { name: 'What is to happen' }).click();
  expect(await page.getByRole('option').allTextContents()).toEqual([
    'the refund was made: the buyer has the money',
    'the refund was not made: give the wallet its money again',
  ]);
  await page.getByRole('option', { name: 'the refund was not made' }).click();
  await dialog.getByLabel('Reason').fill('seen at the provider');
  expect(await violations(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Decide' }).click();
  // What the page read is not so: the API knows of none.
  await dialog.getByText('no refund of ours whose end is awaited').waitFor();
  await context.close();
});

test('an operator decides about money that came in another amount, and sees webhooks', async () => {
  const { sandbox } = demo();
  const { active_provider } = await api<{ active_provider: string }>(
    org.keys.billing_admin,
    'GET',
    '/v1/payments/settings',
  );
  const url =
    active_provider === 'payment_provider_b'
      ? sandbox.payment_provider_b_url
      : sandbox.payment_provider_a_url;
  await fetch(`${url}/sandbox/faults`, {
    method: 'POST',
    body: JSON.stringify({ on: 'capture', amount: '7.00' }),
  });
  await makeTopUp(org, 9);
  const { page, context } = await operator();
  await page.goto('/payments?tab=failed');
  const row = page.getByRole('row', { name: /amount mismatch/ });
  await row.getByText('$7.00').waitFor();
  // Days that another tab was given are seen here, and can be taken away.
  await page.goto('/payments?tab=failed&before=2001-01-01');
  await page.getByText('No payment has failed').waitFor();
  expect(await page.getByLabel(/^Before/).inputValue()).not.toBe('');
  await page.goto('/payments?tab=failed');
  await row.getByText('$7.00').waitFor();
  await row.getByRole('button', { name: 'Decide' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Taken: $7.00.').waitFor();
  await dialog.getByRole('combobox', { name: 'What is to happen' }).click();
  await page.getByRole('option', { name: 'credit what was taken' }).click();
  await dialog.getByLabel('Reason').fill('the buyer agreed');
  expect(await violations(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Decide' }).click();
  await dialog.waitFor({ state: 'detached' });
  await until(async () => {
    const { sessions } = await api<{ sessions: { amount: number; status: string }[] }>(
      org.keys.billing_admin,
      'GET',
      '/v1/payments/history',
    );
    return sessions.some(({ amount, status }) => amount === 9 && status === 'completed');
  });
  await page.getByRole('tab', { name: 'Webhooks' }).click();
  await settled(page);
  expect(await violations(page)).toEqual([]);
  await context.close();
});

test('a member sees the top-ups that they began, and none of others', async () => {
  const { page, context } = await visit(browser, { access_key: org.keys.member });
  await page.goto('/payments');
  await page.getByText('No payments').waitFor();
  await api(
    demo().keys.platform_admin,
    'PUT',
    `/v1/admin/organizations/${org.id}/wallet-settings`,
    {
      wallet_user_topup_enabled: true,
    },
  );
  const { console_url } = demo();
  const own = await api<{ payment_session_id: string }>(
    org.keys.member,
    'POST',
    '/v1/payments/create-checkout',
    {
      amount: 11,
      target_wallet_owner_type: 'user',
      surface: 'console',
      return_url: `${console_url}/top-up/return`,
      cancel_url: `${console_url}/top-up`,
    },
  );
  await page.goto('/payments');
  const rows = page.getByRole('table', { name: 'Payments' }).locator('tbody tr');
  await rows.getByRole('link', { name: '$11.00' }).waitFor();
  expect(await rows.count()).toBe(1);
  await page.goto(`/payments/${own.payment_session_id}`);
  await page.getByRole('heading', { name: 'Top-up of $11.00' }).waitFor();
  await page.goto(`/payments/${paid}`);
  await page.getByRole('alert').getByText('No payment session').waitFor();
  expect(await page.getByText('$25.00').count()).toBe(0);
  await context.close();
});
