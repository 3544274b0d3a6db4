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
/** It has no money, so that its calls have tickets. */
let poor: TestOrganization;

beforeAll(async () => {
  [browser, org, poor] = await Promise.all([
    openBrowser(),
    makeOrganization('Bookkeepers', 5),
    makeOrganization('Poor bookkeepers', 0.000001),
  ]);
});
afterAll(() => browser.close());

const finance = (of = org) => visit(browser, { access_key: of.keys.owner });

/** The lines of the file that a button makes. */
async function linesOf(page: Page, button = 'Download CSV'): Promise<string[]> {
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
  ['ledger', () => org, (of: TestOrganization) => `/wallets/${of.wallet_id}`, 'No entries'],
  ['tickets', () => poor, () => '/tickets?status=all', 'No tickets'],
  ['audit log', () => org, () => '/settings?tab=audit', 'No such change'],
  ['events', () => org, () => '/events', 'Nothing of this kind'],
] as const)('the %s is of the days that its address names', async (_, whose, path, none) => {
  const of = whose();
  const called = makeCall(of, 'of today').catch(() => 'refused');
  // One that nobody pays for waits.
  if (of === org) await called;
  const { page, context, complaints } = await finance(of);
  await page.goto(path(of));
  if (of === poor) await page.getByRole('table').locator('tbody tr').first().waitFor();
  const before = page.getByLabel(/^Before \(/);
  await before.fill('2020-01-01');
  await page.waitForURL('**before=2020-01-01**');
  await page.getByText(none).waitFor();
  await before.fill('');
  await page.waitForURL((url) => !url.search.includes('before'));
  // Else what is said of the former days would do for the next ones.
  await page.getByText(none).waitFor({ state: 'detached' });
  await page.getByLabel(/^From \(/).fill('2099-01-01');
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

test('a day in Before that is not after the one in From says so at its field', async () => {
  const { page, context } = await finance();
  await page.goto('/settings?tab=audit&from=2026-02-01&before=2026-01-01');
  const said = page.getByText('Not after the day in From: no day lies between them.');
  await said.waitFor();
  await page.getByLabel(/^Before \(/).fill('2026-03-01');
  await said.waitFor({ state: 'detached' });
  await context.close();
});

test('the audit log says a cap of money in its currency, and one of answers as their number', async () => {
  const { owner } = org.keys;
  const made = `/v1/organizations/${org.id}/agents`;
  const { id } = await api<{ id: string }>(owner, 'POST', made, { name: 'Capped by money' });
  const cap = { provider: 'openai', model_pattern: '*', interval: 'day', enforcement_mode: 'warn' };
  const route = `/v1/agents/${id}/usage-constraints`;
  await api(owner, 'POST', route, { ...cap, constraint_type: 'responses', max_value: 8 });
  await api(owner, 'POST', route, { ...cap, constraint_type: 'cost', max_value: 12.5 });
  const { page, context, complaints } = await finance();
  await page.goto('/settings?tab=audit');
  const rows = page.getByRole('table', { name: 'Changes' }).locator('tbody tr');
  const caps = rows.filter({ hasText: 'usage constraint created' });
  for (const [place, words] of [
    [0, '$12.50'],
    [1, '8'],
  ] as const) {
    await caps
      .nth(place)
      .getByRole('button', { name: /^What changed/ })
      .click();
    const fields = page.getByRole('table', { name: 'Before and after' });
    const most = fields.getByRole('row', { name: /max value/ });
    await most.getByText(words, { exact: true }).waitFor();
    await page.keyboard.press('Escape');
    await fields.waitFor({ state: 'detached' });
  }
  expect(complaints).toEqual([]);
  await context.close();
});

test('what a bookkeeper needs of each list comes as a file', async () => {
  const { owner, billing_admin } = org.keys;
  const base = `/v1/organizations/${org.id}`;
  const team = await api<{ id: string }>(owner, 'POST', `${base}/teams`, { name: 'Filed' });
  const { user_id, name } = org.member;
  await api(owner, 'POST', `${base}/teams/${team.id}/members`, { user_id });
  await api(billing_admin, 'POST', '/v1/wallets/allocate', { team_id: team.id, amount: 3 });
  await api(billing_admin, 'POST', `${base}/teams/${team.id}/allocate`, { user_id, amount: 2 });
  await api(billing_admin, 'POST', '/v1/approval-rules', {
    ...{ name: 'Small ones', max_per_call: 0.5, max_per_day: 9 },
  });
  const agent = await api<{ id: string }>(owner, 'POST', `${base}/agents`, { name: 'Capped' });
  await api(owner, 'POST', `/v1/agents/${agent.id}/usage-constraints`, {
    ...{ constraint_type: 'cost', provider: 'openai', model_pattern: '*', max_value: 7.5 },
    ...{ interval: 'day', enforcement_mode: 'reject' },
  });
  const { wallets } = await api<{ wallets: { wallet_id: string }[] }>(
    billing_admin,
    'GET',
    `/v1/wallets?owner_type=team&team_id=${team.id}`,
  );
  const { page, context, complaints } = await finance();
  const files: [string, string, string][] = [
    [`/wallets/${org.wallet_id}?tab=holds`, 'reservation_id,', ''],
    [
      `/wallets/${wallets[0]?.wallet_id}?tab=members`,
      'user_id,',
      `${user_id},${name},member,2,USD`,
    ],
    ['/tickets/rules', 'id,name,', ',Small ones,,,0.5,9,0,0,'],
    ['/exports', 'id,from,', ''],
    ['/exports?tab=schedules', 'id,kinds,', ''],
    [`/agents/${agent.id}`, 'id,provider,', ',openai,*,cost,day,0,7.5,USD,reject,'],
  ];
  for (const [path, titles, line] of files) {
    await page.goto(path);
    const lines = await linesOf(page);
    expect([path, lines[0]?.slice(1, 1 + titles.length)]).toEqual([path, titles]);
    expect([path, lines.slice(1).join('\n')]).toEqual([path, expect.stringContaining(line)]);
  }
  expect(complaints).toEqual([]);
  await context.close();
});
