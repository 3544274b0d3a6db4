import type { Browser } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { makeOrganization, type TestOrganization } from '../../../support/console/organization';
import { api, demo, picture, visit } from '../../../support/console/visitor';
import { pressFirst } from '../../../support/payments/sandbox';
import { until } from '../../../support/until';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(async () => {
  await useProvider('payment_provider_a');
  await browser.close();
});

type Provider = 'payment_provider_a' | 'payment_provider_b';

/** The next checkouts are at this provider. */
function useProvider(active_provider: Provider): Promise<unknown> {
  const body = { active_provider };
  return api(demo().keys.platform_admin, 'PUT', '/v1/admin/payments/config', body);
}

async function balanceOf({ keys, wallet_id }: TestOrganization): Promise<number> {
  const route = `/v1/wallets/${wallet_id}`;
  return (await api<{ balance: number }>(keys.billing_admin, 'GET', route)).balance;
}

test.each(['payment_provider_a', 'payment_provider_b'] as const)(
  'a top-up at %s is credited once, though its page is opened twice, reloaded and closed',
  async (provider) => {
    await useProvider(provider);
    const org = await makeOrganization(`Buyers at ${provider}`, 1);
    const { page, context, complaints } = await visit(browser, {
      access_key: org.keys.billing_admin,
    });
    await page.goto('/top-up');
    await page.getByRole('button', { name: '$25.00' }).first().click();
    await page.getByRole('button', { name: 'Pay $25.00' }).click();
    const { sandbox, console_url } = demo();
    const own = {
      payment_provider_a: sandbox.payment_provider_a_url,
      payment_provider_b: sandbox.payment_provider_b_url,
    }[provider];
    await page.waitForURL((url) => url.href.startsWith(own));
    const paid = await pressFirst(page.url());
    const back = paid.headers.get('location') as string;
    expect(back.startsWith(`${console_url}/top-up/return`)).toBe(true);
    const second = await context.newPage();
    await Promise.all([page.goto(back), second.goto(back)]);
    await page.getByText('Credited', { exact: true }).last().waitFor();
    await second.close();
    await page.reload();
    await page.getByText(/was added to the wallet/).waitFor();
    await picture(page, `top-up-return-${provider}`);
    expect(await balanceOf(org)).toBe(26);
    expect(complaints).toEqual([]);
    await context.close();
  },
);

test('a top-up at the second provider that is left takes and credits nothing', async () => {
  await useProvider('payment_provider_b');
  const org = await makeOrganization('Leavers', 1);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto('/top-up');
  await page.getByRole('button', { name: '$25.00' }).first().click();
  await page.getByRole('button', { name: 'Pay $25.00' }).click();
  await page.waitForURL((url) => url.origin !== demo().console_url);
  const left = page.getByRole('button').or(page.getByRole('link')).last();
  await left.click();
  await page.waitForURL((url) => url.origin === demo().console_url);
  await page.getByText('The checkout was left: nothing was paid.').waitFor();
  // It is over, and not only left.
  await until(async () => {
    const path = '/v1/payments/sessions';
    const { sessions } = await api<{ sessions: { status: string }[] }>(
      org.keys.billing_admin,
      'GET',
      path,
    );
    return sessions.map(({ status }) => status).join() === 'canceled';
  });
  expect(await balanceOf(org)).toBe(1);
  expect(complaints).toEqual([]);
  await context.close();
});

test('who went back to a checkout that was left, and paid it, is not told that nothing was paid', async () => {
  await useProvider('payment_provider_b');
  const org = await makeOrganization('Returners', 1);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto('/top-up');
  await page.getByRole('button', { name: '$25.00' }).first().click();
  await page.getByRole('button', { name: 'Pay $25.00' }).click();
  await page.waitForURL((url) => url.origin !== demo().console_url);
  const paid = await pressFirst(page.url());
  await page.goto(paid.headers.get('location') as string);
  await page.getByText('Credited', { exact: true }).last().waitFor();
  const kept = await page.evaluate<string>("localStorage.getItem('svc-checkouts')");
  const [{ mark }] = JSON.parse(kept);
  // The address to which the provider sends those who leave.
  await page.goto(`/top-up?canceled=${mark}`);
  await page.getByText('This checkout was paid').waitFor();
  expect(await page.getByText('nothing was paid').count()).toBe(0);
  await page.getByRole('link', { name: 'See this payment' }).click();
  await page.waitForURL('**/payments/*');
  expect(complaints).toEqual([]);
  await context.close();
});

test('an amount in the address is of the wallet that the address names, and of no other', async () => {
  const org = await makeOrganization('Aimed', 1);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  const pay = page.getByRole('button', { name: 'Pay $37.00' });
  await page.goto('/top-up?amount=37&target=organization');
  await pay.waitFor();
  expect(await page.getByRole('combobox', { name: 'Into the wallet of' }).inputValue()).toBe(
    org.name,
  );
  await page.goto('/top-up?amount=37&target=team+team_elsewhere');
  await page.getByRole('button', { name: /^Pay \$/ }).waitFor();
  expect(await pay.count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test('an amount in the address that nobody can pay leaves the page as it is', async () => {
  const org = await makeOrganization('Dreamers', 1);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  for (const amount of ['1e30', 'Infinity']) {
    await page.goto(`/top-up?amount=${amount}`);
    await page.getByRole('button', { name: /^Pay \$/ }).waitFor();
  }
  expect(complaints).toEqual([]);
  await context.close();
});

test('a billing admin lets buyers come back to this console, and sets what may be bought', async () => {
  const org = await makeOrganization('Rulers', 1);
  const { billing_admin } = org.keys;
  await api(billing_admin, 'PUT', '/v1/payments/settings', {
    return_origins: ['https://elsewhere.example'],
  });
  const { page, context, complaints } = await visit(browser, { access_key: billing_admin });
  await page.goto('/top-up');
  await page.getByRole('link', { name: 'Change the rules of top-ups' }).click();
  await page.getByRole('button', { name: `Add this console: ${demo().console_url}` }).click();
  await page.getByLabel('The least, in USD').fill('2.50');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('The rules of top-ups are saved.').waitFor();
  const rules = await api(billing_admin, 'GET', '/v1/payments/settings');
  expect(rules).toMatchObject({
    min_topup_amount: 2.5,
    return_origins: ['https://elsewhere.example', demo().console_url],
  });
  await page.goto('/top-up');
  await page.getByText(/^From \$2\.50 to /).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('only teams may be topped up: who bills names any, and who is in none reads why not', async () => {
  const org = await makeOrganization('Teams alone', 1);
  const { billing_admin, member } = org.keys;
  await api(billing_admin, 'PUT', '/v1/payments/settings', { topup_target_scopes: ['team'] });
  const settings = `/v1/admin/organizations/${org.id}/wallet-settings`;
  await api(demo().keys.platform_admin, 'PUT', settings, { wallet_user_topup_enabled: true });
  const visitor = await visit(browser, { access_key: billing_admin });
  await visitor.page.goto('/top-up');
  await visitor.page.getByRole('combobox', { name: 'Which team' }).waitFor();
  await visitor.context.close();
  const { page, context } = await visit(browser, { access_key: member });
  await page.goto('/top-up');
  await page.getByText('No wallet here is yours to top up').waitFor();
  await context.close();
});

test('an operator chooses the payment provider, and no secret comes back', async () => {
  await useProvider('payment_provider_a');
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/payments?tab=providers');
  await page.getByRole('combobox', { name: 'New payments go to' }).click();
  await page.getByRole('option', { name: 'provider B' }).click();
  await page.getByText('The payment providers are saved.').waitFor();
  const { platform_admin } = demo().keys;
  const config = await api(platform_admin, 'GET', '/v1/admin/payments/config');
  expect(config.active_provider).toBe('payment_provider_b');
  const account = page.getByRole('form', { name: 'The account at provider B' });
  expect(await account.getByLabel('Secret key', { exact: true }).inputValue()).toBe('');
  await account.getByLabel('Secret key', { exact: true }).fill('no secret key');
  await account.getByRole('button', { name: 'Save the account' }).click();
  await page.getByText('That did not work').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});
