import { readFileSync } from 'node:fs';
import type { Browser, Page } from 'playwright-core';
import { decimalText } from '../../../console/web/base/decimals';
import { openBrowser } from '../../support/browser';
import { settled } from '../../support/console/look';
import { addCalls, copyTickets, makeWallets } from '../../support/console/many';
import {
  makeCall,
  makeOrganization,
  makeTopUp,
  type TestOrganization,
} from '../../support/console/organization';
import { api, ask, demo, picture, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Listed', 5)]);
});
afterAll(() => browser.close());

interface Entry {
  id: string;
  seq: number;
  created_at: string;
  type: string;
  phase: string | null;
  amount: number;
  balance_after: number;
}

/** The lines of the file that the button of a page makes, with its mark and its titles. */
async function linesOf(page: Page, name: string): Promise<string[]> {
  const button = page.getByRole('button', { name: 'Download CSV' });
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
  expect(file.suggestedFilename()).toBe(`${name}.csv`);
  return readFileSync(await file.path(), 'utf8')
    .trimEnd()
    .split('\r\n');
}

/** Those who were made with the organization. */
const FIRST_PEOPLE = 3;

test('a file has all rows that the filter finds, not the page that is shown', async () => {
  const people = 230;
  await makeWallets(org.id, { people });
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/people');
  await settled(page);
  expect(await linesOf(page, 'members')).toHaveLength(1 + people + FIRST_PEOPLE);
  await page.getByLabel('Name or address').fill('Holder 1');
  await page.waitForURL(/q=/);
  await settled(page);
  const found = (await linesOf(page, 'members')).slice(1);
  // Holder 1, 10 to 19, and 100 to 199.
  expect(found).toHaveLength(111);
  expect(found.every((line) => line.includes('Holder 1'))).toBe(true);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a file stops at ten thousand rows, and says so', async () => {
  const crowd = await makeOrganization('Crowded', 1);
  await makeWallets(crowd.id, { people: 10_010 });
  const { page, context, complaints } = await visit(browser, { access_key: crowd.keys.owner });
  await page.goto('/people');
  await settled(page);
  const made = linesOf(page, 'members');
  await page.getByRole('button', { name: /^[1-9][\d,]* rows read…$/ }).waitFor();
  expect(await made).toHaveLength(1 + 10_000);
  await page.getByText('members.csv has the first 10,000 rows').waitFor();
  await page.getByText('A file has at most 10,000 rows, and there are more.').waitFor();
  await page.getByText('Narrow the filters.').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('a ledger, wallets and keys are kept as files, exact, and with nothing that a spreadsheet runs', async () => {
  await makeCall(org, 'What stands in the ledger of it?');
  const bad = { name: '=SUM(A1)', token_type: 'gateway', max_budget: 0.000_000_001 };
  await api(org.keys.owner, 'POST', '/v1/tokens', bad);
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  const read = <T>(route: string) => api<T>(org.keys.owner, 'GET', route);
  const ledger = async () => {
    const route = `/v1/wallets/${org.wallet_id}/transactions?per_page=200`;
    return (await read<{ transactions: Entry[] }>(route)).transactions;
  };
  await until(async () => (await ledger()).some(({ type }) => type === 'settlement'));

  await page.goto(`/wallets/${org.wallet_id}`);
  await settled(page);
  const [head, ...entries] = await linesOf(page, 'ledger');
  expect(head).toMatch(/^\ufeffid,seq,created_at,type,phase,amount,balance_after,/);
  const transactions = await ledger();
  expect(entries.map((line) => line.split(',').slice(0, 7))).toEqual(
    transactions.map(({ id, seq, created_at, type, phase, amount, balance_after }) => [
      id,
      String(seq),
      created_at,
      type,
      phase ?? '',
      decimalText(amount),
      decimalText(balance_after),
    ]),
  );
  await page.getByText(`ledger.csv has ${transactions.length} rows.`).waitFor();
  await page.goto(`/wallets/${org.wallet_id}?type=credit`);
  await settled(page);
  expect(await linesOf(page, 'ledger')).toHaveLength(2);
  await page.getByText('ledger.csv has 1 row.').waitFor();

  await page.goto('/wallets');
  await settled(page);
  const wallets = await linesOf(page, 'wallets');
  const { total } = await read<{ total: number }>('/v1/wallets?per_page=1');
  expect(wallets).toHaveLength(1 + total);
  const own = await read<{ balance: number }>(`/v1/wallets/${org.wallet_id}`);
  const line = [org.wallet_id, 'organization', org.id, org.name, decimalText(own.balance), ''];
  expect(wallets.some((one) => one.startsWith(line.join(',')))).toBe(true);

  await page.goto('/keys?type=gateway');
  await settled(page);
  const keys = (await linesOf(page, 'keys')).slice(1);
  const { tokens } = await read<{ tokens: { id: string }[] }>(
    '/v1/tokens?type=gateway&status=active&per_page=200',
  );
  expect(keys.map((one) => one.split(',')[0])).toEqual(tokens.map(({ id }) => id));
  const [first = ''] = keys;
  expect(first).toContain(",'=SUM(A1),");
  expect(first).toContain(',0.000000001,');
  expect(keys.at(-1)).toContain(`,${org.member.user_id},${org.member.name},`);
  expect(complaints).toEqual([]);
  await context.close();
});

test('tickets are kept as a file beyond the page that is shown', async () => {
  const short = await makeOrganization('Short', 0.000_001);
  const { gateway_url, models } = demo();
  const refused = await fetch(`${gateway_url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${short.keys.gateway}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ model: models[0], messages: [{ role: 'user', content: 'Hello' }] }),
  });
  const { cost_ticket } = (await refused.json()) as { cost_ticket: { id: string } };
  await copyTickets(cost_ticket.id, 60);
  const access_key = short.keys.billing_admin;
  const { page, context, complaints } = await visit(browser, { access_key });
  await page.goto('/tickets');
  await page.getByText('50 shown', { exact: true }).waitFor();
  const lines = await linesOf(page, 'tickets');
  expect(lines).toHaveLength(1 + 61);
  const shortfalls = await api<{ shortfall: number; estimated_cost: number }>(
    access_key,
    'GET',
    `/v1/cost-tickets/${cost_ticket.id}`,
  );
  const { estimated_cost, shortfall } = shortfalls;
  const line = lines.find((one) => one.startsWith(`${cost_ticket.id},open,balance,`));
  expect(line).toContain(`,${decimalText(estimated_cost)},${decimalText(shortfall)},,USD,`);
  await page.goto('/tickets?status=denied');
  await settled(page);
  expect(await linesOf(page, 'tickets')).toHaveLength(1);
  expect(complaints).toEqual([]);
  await context.close();
});

test('operators keep payments as a file, with whose they are and what was taken', async () => {
  const payer = await makeOrganization('Paying, by card', 1);
  const payment = await makeTopUp(payer, 5);
  const route = `/v1/payments/sessions/${payment}`;
  await until(async () => {
    const { status } = await api(payer.keys.billing_admin, 'GET', route);
    return status === 'completed';
  });
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  expect(await ask(page, 'PUT', '/api/session/org', { org_id: payer.id })).toBe(204);
  await page.goto('/payments');
  await settled(page);
  const [head, ...lines] = await linesOf(page, 'payments');
  expect(head).toContain(',org_id,org_name,provider_capture_id,captured_amount,');
  expect(lines).toHaveLength(1);
  expect(lines[0]?.startsWith(`${payment},`)).toBe(true);
  expect(lines[0]).toContain(',5,USD,completed,');
  // A comma is of the name, and begins no other cell.
  expect(lines[0]).toContain(`,${payer.id},"Paying, by card",`);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a list whose newest part holds nothing that is looked for says so, and looks further', async () => {
  await addCalls(org.id, 'agent_old', 1);
  await addCalls(org.id, 'agent_busy', 2_100);
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/events?paused=1&agent_id=agent_old');
  await page.getByText('None among those looked at so far; there are older ones.').waitFor();
  await page.getByRole('button', { name: 'Look further' }).click();
  await page.getByRole('cell', { name: 'request.completed', exact: true }).waitFor();
  // A field keeps what is typed while the list follows it, and the focus.
  const field = page.getByLabel('Id of an agent');
  await field.fill('agent_b');
  await page.waitForURL(/agent_id=agent_b$/);
  await page.keyboard.type('usy');
  await page.waitForURL(/agent_id=agent_busy$/);
  expect(await field.inputValue()).toBe('agent_busy');
  expect(complaints).toEqual([]);
  await context.close();
});

test('a team is found by name among more than a field shows', async () => {
  const route = `/v1/organizations/${org.id}/teams`;
  for (let n = 1; n <= 25; n += 1)
    await api(org.keys.owner, 'POST', route, { name: `Division ${n}` });
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/tickets/rules');
  await settled(page);
  await page.getByRole('button', { name: 'New rule' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Rule of a division');
  await dialog.getByRole('combobox', { name: 'Calls of' }).fill('Division 25');
  await page.getByRole('option', { name: 'Division 25' }).click();
  await dialog.getByLabel(/The most that one call/).fill('1');
  await dialog.getByLabel(/The most that it approves/).fill('2');
  await dialog.getByRole('button', { name: 'Make the rule' }).click();
  await dialog.waitFor({ state: 'detached' });
  const made = page.getByRole('row', { name: 'Rule of a division' });
  await made.getByText('Division 25').waitFor();
  // What was chosen stands in the field when the rule is changed.
  await made.getByRole('button', { name: 'Change' }).click();
  const field = page.getByRole('dialog').getByRole('combobox', { name: 'Calls of' });
  await page.waitForFunction(
    (input) => (input as unknown as { value: string }).value === 'Division 25',
    await field.elementHandle(),
  );
  expect(complaints).toEqual([]);
  await context.close();
});

test('figures of other filters are marked as such until those that were asked for are there', async () => {
  await makeCall(org, 'What does this cost?', 'marked');
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto('/spend');
  await settled(page);
  const words = page.getByText('Reading what you asked for');
  expect(await words.count()).toBe(0);
  let go = () => {};
  const held = new Promise<void>((resolve) => {
    go = resolve;
  });
  await page.route(/\/api\/spend/, async (one) => {
    await held;
    await one.continue();
  });
  await page.getByRole('combobox', { name: 'Group by' }).click();
  await page.getByRole('option', { name: 'Person' }).click();
  await page.waitForURL(/by=user/);
  await words.first().waitFor();
  // Bars and ranking of models would have the names of no persons.
  expect(await page.getByRole('table', { name: 'Cost by person' }).count()).toBe(0);
  await picture(page, 'spend-old-figures');
  go();
  await words.first().waitFor({ state: 'detached' });
  await page
    .getByRole('table', { name: 'Cost by person' })
    .getByRole('button', { name: org.member.name })
    .waitFor();
  // Of one kind, those of another period stay, and are said to be old.
  await page.unroute(/\/api\/spend/);
  const later = new Promise<void>((resolve) => {
    go = resolve;
  });
  await page.route(/\/api\/spend/, async (one) => {
    await later;
    await one.continue();
  });
  await page.getByRole('combobox', { name: 'Period' }).click();
  await page.getByRole('option', { name: /7 days/ }).click();
  await words.nth(2).waitFor();
  expect(await page.locator('.stale').count()).toBe(3);
  await picture(page, 'spend-old-period');
  go();
  await words.first().waitFor({ state: 'detached' });
  expect(await page.locator('.stale').count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});
