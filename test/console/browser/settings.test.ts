import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { makeOrganization } from '../../support/console/organization';
import { api, ask, demo, picture, visit } from '../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

test('signing out everywhere ends the sessions of other browsers too', async () => {
  const [here, there] = [
    await visit(browser, { role: 'member' }),
    await visit(browser, { role: 'member' }),
  ];
  await here.page.goto('/settings');
  await here.page.getByText('this one').waitFor();
  await here.page.getByText('elsewhere').first().waitFor();
  await here.page.getByRole('button', { name: 'Sign out everywhere' }).click();
  const dialog = here.page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Sign out everywhere' }).click();
  await here.page.waitForURL('**/login');
  expect(await here.context.cookies()).toEqual([]);
  expect(await ask(there.page, 'GET', '/api/me')).toBe(401);
  await here.context.close();
  await there.context.close();
});

test('a budget is made for a person who is sought by name, changed, and deleted', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.goto('/settings?tab=budgets');
  await page.getByRole('button', { name: 'New budget' }).click();
  const form = page.getByRole('dialog');
  await form.getByRole('combobox', { name: 'Applies to' }).click();
  await page.getByRole('option', { name: 'a person' }).click();
  await form.getByRole('combobox', { name: 'Which' }).fill('Bea');
  await page.getByRole('option', { name: 'Bea Billing' }).click();
  await form.getByLabel('Limit in USD').fill('12.5');
  await form.getByRole('button', { name: 'Make the budget' }).click();
  await form.waitFor({ state: 'detached' });
  const row = page.getByRole('row', { name: /Bea Billing/ });
  await row.getByText('$0.00 of $12.50 a month').waitFor();
  await row.getByRole('button', { name: 'Change' }).click();
  await form.getByLabel('Limit in USD').fill('20');
  await form.getByRole('button', { name: 'Change' }).click();
  await row.getByText('$0.00 of $20.00 a month').waitFor();
  await form.waitFor({ state: 'detached' });
  // What an approval added stands apart from the limit: the page reads a budget that has some.
  const content = `
    const ask = window.fetch;
    window.fetch = async (...given) => {
      const answer = await ask(...given);
      if (!String(given[0]?.url ?? given[0]).includes('/api/budgets?') || !answer.ok) return answer;
      const { budgets, ...rest } = await answer.json();
      const raised = budgets.map((one) => ({ ...one, window: 'hour', raised: 0.2 }));
      const read = JSON.stringify({ ...rest, budgets: raised });
      return new Response(read, { status: 200, headers: answer.headers });
    };`;
  await page.addInitScript({ content });
  await page.reload();
  await row.getByText('$0.00 of $20.00 an hour, raised once by $0.20').waitFor();
  await row.getByRole('button', { name: 'Delete' }).click();
  await form.getByRole('button', { name: 'Delete' }).click();
  await row.waitFor({ state: 'detached' });
  expect(complaints).toEqual([]);
  await context.close();
});

test('a channel is told by a test, whose way stands in the log', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'billing_admin' });
  const name = `Approvers ${Date.now()}`;
  await page.goto('/settings?tab=notices');
  await page.getByRole('button', { name: 'New destination' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Name').fill(name);
  await form.getByLabel('Address').fill(`${demo().sandbox.notices_url}/slack/console`);
  await form.getByRole('button', { name: 'Make it' }).click();
  await form.waitFor({ state: 'detached' });
  const row = page.getByRole('table', { name: 'Destinations' }).getByRole('row', { name });
  await row.getByRole('button', { name: 'Test' }).click();
  const message = page.getByRole('table', { name: 'Messages' }).getByRole('row', { name });
  await message.getByText('arrived').waitFor();
  await row.getByRole('button', { name: 'Turn off' }).click();
  await row.getByRole('button', { name: 'Turn on' }).waitFor();
  await row.getByRole('button', { name: 'Delete' }).click();
  await form.getByRole('button', { name: 'Delete' }).click();
  await row.waitFor({ state: 'detached' });
  expect(complaints).toEqual([]);
  await context.close();
});

test('an amount is read as it stands in its field, also where decimals begin with a comma', async () => {
  const org = await makeOrganization('Kommas', 1);
  const { platform_admin } = demo().keys;
  const at = `/v1/admin/organizations/${org.id}/wallet-settings`;
  await api(platform_admin, 'PUT', at, { low_balance_threshold: 1.125 });
  const { page, context, complaints } = await visit(browser, {
    role: 'platform_admin',
    locale: 'de-DE',
  });
  expect(await ask(page, 'PUT', '/api/session/org', { org_id: org.id })).toBe(204);
  await page.goto('/settings?tab=organization');
  const field = page.getByLabel('A wallet is low below, in USD');
  await field.waitFor();
  expect(await field.inputValue()).toBe('1,125');
  await field.fill('1,126');
  await page.getByText('= 1,126 USD').waitFor();
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText('The settings are saved.').waitFor();
  expect(await api(platform_admin, 'GET', at)).toMatchObject({ low_balance_threshold: 1.126 });
  expect(complaints).toEqual([]);
  await context.close();
});

test('an operator changes the reporting zone, which an owner reads, and both see in the log', async () => {
  const { organization_id, keys } = demo();
  const settings = `/v1/admin/organizations/${organization_id}/wallet-settings`;
  const setZone = (time_zone: string) => api(keys.platform_admin, 'PUT', settings, { time_zone });
  await setZone('UTC');
  const operator = await visit(browser, { role: 'platform_admin' });
  const org_id = organization_id;
  expect(await ask(operator.page, 'PUT', '/api/session/org', { org_id })).toBe(204);
  await operator.page.goto('/settings?tab=organization');
  await operator.page.getByRole('combobox', { name: 'Reporting zone' }).fill('Kolk');
  await operator.page.getByRole('option', { name: 'Asia/Kolkata' }).click();
  await operator.page.getByRole('button', { name: 'Save', exact: true }).click();
  await operator.page.getByText('The settings are saved.').waitFor();
  const owner = await visit(browser, { role: 'owner' });
  await owner.page.goto('/settings?tab=organization');
  const zone = owner.page.getByRole('combobox', { name: 'Reporting zone' });
  await zone.waitFor();
  expect(await zone.inputValue()).toBe('Asia/Kolkata');
  expect(await zone.isEditable()).toBe(false);
  expect(await owner.page.getByRole('button', { name: 'Save', exact: true }).count()).toBe(0);
  await owner.page.goto('/settings?tab=audit');
  await owner.page.getByLabel('What', { exact: true }).fill('organization');
  await owner.page.waitForURL('**action=organization**');
  await owner.page
    .getByRole('button', { name: /^What changed: organization changed/ })
    .first()
    .click();
  await owner.page.getByRole('row', { name: /^time zone UTC Asia/ }).waitFor();
  await setZone('UTC');
  expect([...operator.complaints, ...owner.complaints]).toEqual([]);
  await operator.context.close();
  await owner.context.close();
});

test('an admin lets members make keys, which opens the chat to them', async () => {
  const org = await makeOrganization('Letting', 5);
  const member = await visit(browser, { access_key: org.keys.member });
  await member.page.goto('/chat');
  await member.page.getByText(/switch on "Members make keys for themselves"/).waitFor();
  await picture(member.page, 'chat-not-allowed');
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/settings?tab=organization');
  await page.getByRole('switch', { name: 'Members make keys for themselves' }).press('Space');
  await page.getByLabel('Active keys per person, at most').fill('3');
  await page.getByRole('button', { name: 'Save the rule' }).click();
  await page.getByText('The rule for keys of members is saved.').waitFor();
  await picture(page, 'settings-member-keys');
  await page.reload();
  await page.getByLabel('Active keys per person, at most').waitFor();
  await member.page.goto('/chat');
  await member.page.getByLabel('Message').waitFor();
  await member.page.goto('/keys');
  await member.page.getByRole('button', { name: 'New key' }).waitFor();
  expect([...complaints, ...member.complaints]).toEqual([]);
  await context.close();
  await member.context.close();
});

test('a budget of a key is offered to who may see keys, and a list that is not read says why', async () => {
  const { page, context } = await visit(browser, { role: 'billing_admin' });
  const error = { code: 'internal_error', message: 'Something is broken.' };
  await page.route(
    (url) => url.pathname.endsWith('/teams'),
    (route) => route.fulfill({ status: 500, json: { error } }),
  );
  await page.goto('/settings?tab=budgets');
  await page.getByRole('button', { name: 'New budget' }).click();
  const form = page.getByRole('dialog');
  await form.getByText('Something is broken.').waitFor();
  await form.getByRole('combobox', { name: 'Applies to' }).click();
  await page.getByRole('option', { name: 'a person' }).waitFor();
  expect(await page.getByRole('option', { name: 'a key' }).count()).toBe(0);
  await context.close();
});
