import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { ask, demo, signIn, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

test('the printed link signs in once: a look spends nothing, its button does', async () => {
  const { page, context } = await visit(browser);
  const { console_sign_in_url } = demo();
  for (let looks = 0; looks < 2; looks += 1) {
    await page.goto('about:blank');
    await page.goto(console_sign_in_url);
    await page.getByText('This link signs you in once.').waitFor();
  }
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByText('What pays for your calls').waitFor();
  await page.getByRole('button', { name: 'Olivia Owner' }).waitFor();
  await context.close();
  const second = await visit(browser);
  await second.page.goto('about:blank');
  await second.page.goto(console_sign_in_url);
  await second.page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await second.page.getByText('This link does not work any more').waitFor();
  await second.context.close();
});

test('a key signs in by the form, and a wrong one is told in words', async () => {
  const { page, context } = await visit(browser);
  const field = page.getByLabel('Access key or one-time code');
  await field.fill('svc_ak_nobody');
  await field.press('Enter');
  await page.getByText(/key/i).and(page.locator('[class*=error]')).first().waitFor();
  await field.fill(demo().keys.billing_admin);
  await field.press('Enter');
  await page.getByRole('button', { name: 'Bea Billing' }).waitFor();
  await context.close();
});

test('people of the identity provider sign in by it, and come to the page that they wanted', async () => {
  const { page, context, complaints } = await visit(browser);
  await page.goto('/tickets?status=all');
  await page.getByRole('button', { name: 'Sign in with Sandbox' }).click();
  await page.getByText('Fay Finance').first().click();
  await page.waitForURL('**/tickets?status=all');
  await page.getByRole('button', { name: 'Fay Finance' }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('signing out ends the session at the API: a copy of the cookie is worth nothing', async () => {
  const { page, context } = await visit(browser, { role: 'member' });
  const stolen = await context.cookies();
  expect(stolen).toMatchObject([
    { name: '__Host-Http-svc', httpOnly: true, secure: true, sameSite: 'Strict', path: '/' },
  ]);
  expect(await page.evaluate('document.cookie')).toBe('');
  await page.getByRole('button', { name: 'Mo Member' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.waitForURL('**/login');
  expect(await context.cookies()).toEqual([]);
  await context.addCookies(stolen);
  expect(await ask(page, 'GET', '/api/me')).toBe(401);
  await context.close();
});

test('signing out empties the other tabs of the browser too', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const other = await context.newPage();
  await other.goto('/wallets');
  await other.getByRole('heading', { name: 'Wallets' }).waitFor();
  await page.getByRole('button', { name: 'Olivia Owner' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await Promise.all([page.waitForURL('**/login'), other.waitForURL('**/login')]);
  expect(await other.getByRole('heading', { name: 'Wallets' }).count()).toBe(0);
  await context.close();
});

test.each([
  ['cannot be reached', 0],
  ['fails', 503],
])(
  'signing out while the server %s leaves the page, says so, and is tried again once',
  async (_, status) => {
    const { page, context } = await visit(browser, { role: 'owner' });
    const other = await context.newPage();
    await other.goto('/wallets');
    await other.getByRole('heading', { name: 'Wallets' }).waitFor();
    const stolen = await context.cookies();
    let tries = 0;
    await page.route('**/api/session', (route) => {
      if (route.request().method() !== 'DELETE') return route.continue();
      tries += 1;
      if (tries > 1) return route.continue();
      return status === 0 ? route.abort('connectionrefused') : route.fulfill({ status, json: {} });
    });
    await page.getByRole('button', { name: 'Olivia Owner' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await Promise.all([page.waitForURL('**/login'), other.waitForURL('**/login')]);
    const told = page.getByText('the session itself ends within an hour without use');
    await told.waitFor();
    await until(async () => (await context.cookies()).length === 0);
    await context.addCookies(stolen);
    expect(await ask(page, 'GET', '/api/me')).toBe(401);
    await page.reload();
    await page.getByLabel('Access key or one-time code').waitFor();
    expect([await told.count(), tries]).toEqual([0, 2]);
    await context.close();
  },
);

test('a sign-out that the server refuses is told, and leaves the page as it is', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.route('**/api/session', (route) => {
    if (route.request().method() !== 'DELETE') return route.continue();
    const error = { code: 'rate_limit_exceeded', message: 'Too many requests.' };
    return route.fulfill({ status: 429, json: { error } });
  });
  await page.getByRole('button', { name: 'Olivia Owner' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByText('Too many requests.').waitFor();
  expect(new URL(page.url()).pathname).toBe('/');
  await context.close();
});

test('an operator signs in by the platform key, chooses an organization, and leaves no key behind', async () => {
  const { page, context } = await visit(browser, { role: 'platform_admin' });
  await page.getByRole('button', { name: 'Choose an organization' }).click();
  await page.getByRole('menuitem', { name: 'Demo' }).click();
  await page.getByRole('button', { name: 'Demo' }).waitFor();
  await page.getByRole('link', { name: 'Wallets' }).click();
  await page.getByRole('heading', { name: 'Wallets' }).waitFor();
  const stolen = await context.cookies();
  expect(await ask(page, 'DELETE', '/api/session')).toBe(204);
  await context.addCookies(stolen);
  expect(await ask(page, 'GET', '/api/me')).toBe(401);
  await context.close();
});

test('a session that ends while a form is open loses nothing that was typed', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  const name = page.getByRole('textbox', { name: 'Name' }).last();
  await name.fill('typed before it ended');
  // Ended elsewhere: the cookie of this browser is as it was.
  const other = await visit(browser);
  await other.context.addCookies(await context.cookies());
  expect(await ask(other.page, 'DELETE', '/api/session')).toBe(204);
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByText('Your session has ended.').waitFor();
  // The key is for the dialog on top, which stays, and not for the form beneath.
  await page.keyboard.press('Escape');
  await page
    .getByLabel('Access key or one-time code')
    .fill(process.env.SVC_CONSOLE_OWNER_KEY ?? '');
  await page.getByLabel('Access key or one-time code').press('Enter');
  await page.getByText('Your session has ended.').waitFor({ state: 'detached' });
  expect(await name.inputValue()).toBe('typed before it ended');
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByText('Copy it now').waitFor();
  // What is shown once is not lost by a slip.
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'I have copied it' }).click();
  await page.getByText('Copy it now').waitFor({ state: 'detached' });
  await other.context.close();
  await context.close();
});

test('a tab whose browser signed in as somebody else says so, and sends nothing in their name', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('textbox', { name: 'Name' }).last().fill('of the owner');
  const other = await context.newPage();
  await other.goto('/login');
  expect(await ask(other, 'POST', '/api/session', { access_key: demo().keys.billing_admin })).toBe(
    204,
  );
  // No page was begun since: the first tab is told by what it asks.
  const refused = page.waitForResponse(
    (answer) => answer.request().method() === 'POST' && answer.url().endsWith('/api/keys'),
  );
  await page.getByRole('button', { name: 'Create key' }).click();
  expect((await refused).status()).toBe(403);
  const dialog = page.getByRole('dialog', { name: 'You have signed in elsewhere' });
  await dialog.waitFor();
  await dialog.getByRole('button', { name: 'Reload' }).click();
  await page.getByRole('button', { name: 'Bea Billing' }).waitFor();
  // And by the page of the next one, before it asks for anything.
  expect(await signIn(other, 'owner')).toBe(204);
  await other.goto('/');
  await dialog.waitFor();
  await context.close();
});

test('a link to a file whose session has ended, or whose server is away, leaves nobody outside', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/spend');
  const link = page.getByRole('link', { name: 'Ranking as CSV' });
  await link.waitFor();
  const overloaded = { error: { message: 'The API cannot be reached at present.' } };
  await page.route('**/api/spend/top/csv**', (route) =>
    route.fulfill({ status: 503, json: overloaded }),
  );
  await link.click();
  await page.getByText(overloaded.error.message).waitFor();
  await page.unroute('**/api/spend/top/csv**');
  const other = await visit(browser);
  await other.context.addCookies(await context.cookies());
  expect(await ask(other.page, 'DELETE', '/api/session')).toBe(204);
  await link.click();
  await page.getByText('Your session has ended.').waitFor();
  expect(new URL(page.url()).pathname).toBe('/spend');
  await page.getByRole('heading', { name: 'Spend', level: 1 }).waitFor();
  await other.context.close();
  await context.close();
});

test.each([
  ['signed out', 'api', 'Upgrade the API first'],
  ['at work', 'console', 'Upgrade the console'],
])(
  'before an API that does not fit, whoever is %s is told what to upgrade: the %s',
  async (where, upgrade, title) => {
    const at_work = where === 'at work';
    const { page, context } = await visit(browser, at_work ? { role: 'owner' } : {});
    if (at_work) {
      await page.goto('/keys');
      await page.getByRole('button', { name: 'New key' }).waitFor();
    }
    const error = { code: 'version_not_supported', message: 'They do not fit.', upgrade };
    await page.route('**/api/**', (route) => route.fulfill({ status: 426, json: { error } }));
    const told = page.getByRole('heading', { name: title });
    const spend = page.getByRole('link', { name: 'Spend' });
    // What the page asks by itself may be refused first: then it has no links any more.
    if (at_work) await Promise.any([spend.click(), told.waitFor()]);
    else await page.goto('/login');
    await told.waitFor();
    expect(await page.getByLabel('Access key or one-time code').count()).toBe(0);
    await context.close();
  },
);

test('a tab whose browser signed in as somebody else leaves the stream of events to one that has not', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const begun = page.waitForRequest('**/api/events/stream');
  await page.goto('/keys');
  await begun;
  const other = await context.newPage();
  await other.goto('/login');
  expect(await signIn(other, 'billing_admin')).toBe(204);
  const taken = other.waitForRequest('**/api/events/stream');
  await other.goto('/');
  await page.getByRole('dialog', { name: 'You have signed in elsewhere' }).waitFor();
  expect((await taken).headers()['x-svc-console-user']).not.toBe(
    (await begun).headers()['x-svc-console-user'],
  );
  await context.close();
});

test.each([
  ['browser_not_allowed', true],
  ['permission_denied', false],
])('a stream of events that is refused by %s is asked for again: %s', async (code, is_again) => {
  const { page, context } = await visit(browser, { role: 'owner' });
  let asked = 0;
  await page.route('**/api/events/stream', (route) => {
    asked += 1;
    if (asked > 1) return route.continue();
    const error = { code, message: 'For a moment the session is of no organization.' };
    return route.fulfill({ status: 403, json: { error } });
  });
  await page.goto('/keys');
  if (is_again) await until(() => asked > 1);
  else {
    await until(() => asked > 0);
    await page.waitForTimeout(3_000);
    expect(asked).toBe(1);
  }
  await context.close();
});
