import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { settled } from '../../support/console/look';
import { addCalls, makeWallets } from '../../support/console/many';
import {
  makeCall,
  makeOrganization,
  type TestOrganization,
} from '../../support/console/organization';
import { api, picture, visit } from '../../support/console/visitor';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Listed', 5)]);
});
afterAll(() => browser.close());

/** Those who were made with the organization. */
const FIRST_PEOPLE = 3;

test('a file has all rows that the filter finds, not the page that is shown', async () => {
  const people = 230;
  await makeWallets(org.id, { people });
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/people');
  await settled(page);
  const lines = async () => {
    const link = page.getByRole('button', { name: 'CSV of all rows' });
    const [file] = await Promise.all([page.waitForEvent('download'), link.click()]);
    const parts: Buffer[] = [];
    for await (const part of await file.createReadStream()) parts.push(part as Buffer);
    return Buffer.concat(parts).toString().trim().split('\r\n');
  };
  expect(await lines()).toHaveLength(1 + people + FIRST_PEOPLE);
  await page.getByLabel('Name or address').fill('Holder 1');
  await page.waitForURL(/q=/);
  await settled(page);
  const found = (await lines()).slice(1);
  // Holder 1, 10 to 19, and 100 to 199.
  expect(found).toHaveLength(111);
  expect(found.every((line) => line.includes('Holder 1'))).toBe(true);
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
