import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { copyTickets, expireTickets } from '../../support/console/many';
import { makeOrganization, type TestOrganization } from '../../support/console/organization';
import { api, demo, picture, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

/** A page of the inbox. */
const PAGE = 50;
/** Less than any call costs. */
const FUNDS = 0.000_001;

let asked = 0;

/** A call that waits for money until somebody decides. */
async function held({ keys }: TestOrganization): Promise<number> {
  const { gateway_url, models } = demo();
  asked += 1;
  const answer = await fetch(`${gateway_url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${keys.gateway}`,
      'content-type': 'application/json',
      'x-svc-hold-ms': '600000',
    },
    body: JSON.stringify({
      model: models[0],
      messages: [{ role: 'user', content: `Question ${asked} of the inbox.` }],
    }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

const rowsOf = (page: Page) => page.getByRole('table', { name: 'Tickets' }).locator('tbody tr');

async function openOf({ keys }: TestOrganization): Promise<string[]> {
  const path = '/v1/cost-tickets?status=open&per_page=200';
  const { tickets } = await api<{ tickets: { id: string }[] }>(keys.billing_admin, 'GET', path);
  return tickets.map(({ id }) => id);
}

test('of a thousand open tickets the inbox reads and paints one page', async () => {
  const org = await makeOrganization('Thousands', FUNDS);
  const call = held(org);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto('/tickets');
  await page.getByText('a call is waiting now').waitFor();
  const [first] = await openOf(org);
  await copyTickets(first as string, 999);
  let reads = 0;
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname === '/api/tickets' && searchParams.get('per_page') === String(PAGE)) reads += 1;
  });
  await page.goto('/tickets');
  await rowsOf(page)
    .nth(PAGE - 1)
    .waitFor();
  expect(await rowsOf(page).count()).toBe(PAGE);
  // Once, and once more as the stream of events begins.
  expect(reads).toBeLessThanOrEqual(2);
  await page.getByLabel('1000 open tickets').waitFor();
  await picture(page, 'tickets-thousand');
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.waitForURL(/cursor=/);
  await page
    .getByRole('table', { name: 'Tickets' })
    .and(page.locator('[aria-busy=false]'))
    .waitFor();
  expect(await rowsOf(page).count()).toBe(PAGE);
  expect(complaints).toEqual([]);
  await api(org.keys.billing_admin, 'POST', `/v1/cost-tickets/${first}/deny`, { reason: 'done' });
  expect(await call).toBe(403);
  await expireTickets(org.id);
  await context.close();
});

test('fifty calls that begin to wait appear by themselves, and are denied together', async () => {
  const org = await makeOrganization('Fifties', FUNDS);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto('/tickets');
  await page.getByText('No open tickets').waitFor();
  let loads = 0;
  page.on('load', () => {
    loads += 1;
  });
  const calls = Array.from({ length: PAGE }, () => held(org));
  await rowsOf(page)
    .nth(PAGE - 1)
    .waitFor();
  await page.getByLabel(`${PAGE} open tickets`).waitFor();
  expect(loads).toBe(0);
  await page.getByRole('button', { name: `Choose all ${PAGE} shown` }).click();
  expect(await page.getByRole('checkbox', { checked: true }).count()).toBe(PAGE);
  await picture(page, 'tickets-chosen');
  await page.getByRole('button', { name: 'Deny all' }).click();
  await page
    .getByRole('dialog')
    .getByRole('button', { name: `Deny ${PAGE}` })
    .click();
  await page.getByRole('dialog').getByRole('button', { name: 'Done' }).click();
  expect(new Set(await Promise.all(calls))).toEqual(new Set([403]));
  await page.getByText('No open tickets').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('what a budget lacks is never shown as less than it is', async () => {
  const org = await makeOrganization('Budgeted', FUNDS);
  const call = held(org);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await until(async () => (await openOf(org)).length === 1);
  // Which amounts are missing hangs on prices, so the page reads given ones.
  const content = `
    const ask = window.fetch;
    window.fetch = async (...given) => {
      const answer = await ask(...given);
      if (!String(given[0]?.url ?? given[0]).includes('/api/tickets?') || !answer.ok) return answer;
      const { tickets, ...rest } = await answer.json();
      const budget = { id: 'bud_1', owner_type: 'team', window: 'hour' };
      const budgets = [{ ...budget, used: 0.3, limit: 0.3, missing: 0.0301 }];
      const of_budget = { cause: 'budget', shortfall: 0.0199, budgets };
      const read = { ...rest, tickets: tickets.map((one) => ({ ...one, ...of_budget })) };
      return new Response(JSON.stringify(read), { status: 200, headers: answer.headers });
    };`;
  await page.addInitScript({ content });
  await page.goto('/tickets');
  await rowsOf(page).getByText('$0.04 of a budget and $0.02').waitFor();
  await rowsOf(page).getByRole('button', { name: 'Approve' }).click();
  const dialog = page.getByRole('dialog');
  await dialog
    .getByText(
      '$0.30 of $0.30 an hour are used. Approving raises it once by $0.04, which is missing.',
    )
    .waitFor();
  // What is typed stands there, the amount that is missing too.
  const amount = dialog.getByLabel('Amount in USD');
  const missing = await amount.inputValue();
  await amount.fill('');
  await amount.fill(missing);
  expect(await amount.inputValue()).toBe(missing);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  const [id] = await openOf(org);
  await api(org.keys.billing_admin, 'POST', `/v1/cost-tickets/${id}/deny`, { reason: 'done' });
  expect(await call).toBe(403);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a ticket that was approved says which budget was raised by how much', async () => {
  const org = await makeOrganization('Raised', 5);
  const budget = { owner_type: 'organization', limit: 0, window: 'month', on_exceed: 'ticket' };
  await api(org.keys.billing_admin, 'POST', '/v1/budgets', budget);
  const call = held(org);
  await until(async () => (await openOf(org)).length === 1);
  const [id] = await openOf(org);
  await api(org.keys.billing_admin, 'POST', `/v1/cost-tickets/${id}/approve`, {});
  expect(await call).toBe(200);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto(`/tickets/${id}`);
  const facts = page.getByRole('table', { name: 'The ticket' });
  await facts
    .getByText(/^of the organization, \$0[.0]* a month: raised by \$0[.]0*[1-9]/)
    .waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('what is decided together is named with its amounts, and is no more than what is shown', async () => {
  const org = await makeOrganization('Named', FUNDS);
  const calls = [held(org), held(org)];
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto('/tickets');
  await rowsOf(page).nth(1).waitFor();
  const chosen = () => page.getByRole('checkbox', { checked: true }).count();
  await page.getByRole('button', { name: 'Choose all 2 shown' }).click();
  expect(await chosen()).toBe(2);
  // With another list nothing is chosen.
  await page.getByRole('textbox', { name: 'Name' }).fill(org.member.name);
  await page.waitForURL('**q=**');
  await page.getByRole('button', { name: 'Choose all 2 shown' }).waitFor();
  expect(await chosen()).toBe(0);
  await page.getByRole('button', { name: 'Choose all 2 shown' }).click();
  await page.getByRole('button', { name: 'Approve all' }).click();
  const dialog = page.getByRole('dialog', { name: 'Approve 2 calls' });
  const named = dialog.getByRole('list', { name: 'Calls that are decided about' });
  await named.getByText(org.member.name).nth(1).waitFor();
  await dialog.getByText(/\$[\d.,]+ in all\./).waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Deny all' }).click();
  // One of them is decided by somebody else meanwhile: the answer says whose.
  const { tickets } = await api<{ tickets: { id: string }[] }>(
    org.keys.owner,
    'GET',
    '/v1/cost-tickets?status=open',
  );
  const route = `/v1/cost-tickets/${tickets[0]?.id}/deny`;
  await api(org.keys.owner, 'POST', route, { reason: 'faster' });
  await page.getByRole('dialog').getByRole('button', { name: 'Deny 2' }).click();
  const outcomes = page.getByRole('list', { name: 'What became of them' });
  await outcomes.waitFor();
  for (const item of await outcomes.getByRole('listitem').all())
    expect(await item.textContent()).toContain(org.member.name);
  await outcomes.getByText(`denied, already by owner of ${org.name}`).waitFor();
  expect(await Promise.all(calls)).toEqual([403, 403]);
  expect(complaints).toEqual([]);
  await context.close();
});

test('of two admins in two browsers the slower reads who was faster, and changes nothing', async () => {
  const org = await makeOrganization('Rivals', FUNDS);
  const call = held(org);
  const [faster, slower] = await Promise.all([
    visit(browser, { access_key: org.keys.billing_admin }),
    visit(browser, { access_key: org.keys.owner }),
  ]);
  for (const { page } of [faster, slower]) {
    await page.goto('/tickets');
    await page.getByRole('button', { name: 'Deny', exact: true }).click();
    await page.getByLabel('Reason').fill('Not this month');
  }
  const deny = (page: Page) =>
    page.getByRole('dialog').getByRole('button', { name: 'Deny' }).click();
  await deny(faster.page);
  expect(await call).toBe(403);
  await deny(slower.page);
  const told = slower.page.getByRole('alert').filter({ hasText: 'Already decided' });
  await told
    .getByText(
      `billing_admin of ${org.name} has denied this call already. Your decision changed nothing`,
    )
    .waitFor();
  await picture(slower.page, 'tickets-faster');
  await slower.page.getByText('No open tickets').waitFor();
  expect([...faster.complaints, ...slower.complaints]).toEqual([]);
  await Promise.all([faster.context.close(), slower.context.close()]);
});
