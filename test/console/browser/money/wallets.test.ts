import type { Browser, Request } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { violations } from '../../../support/console/axe';
import { settled } from '../../../support/console/look';
import { makeWallets } from '../../../support/console/many';
import { makeOrganization, type TestOrganization } from '../../../support/console/organization';
import { api, demo, picture, visit } from '../../../support/console/visitor';
import { until } from '../../../support/until';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Holders', 50)]);
});
afterAll(() => browser.close());

/** A page of a level. */
const PAGE = 25;

/** What is read and shown does not hang on how many there are, so that the page never pauses. */
const PEOPLE = 10_000;

test('any number of wallets is a tree of which only what is opened is read, a page at a time', async () => {
  const { team_id, team } = await makeWallets(org.id, { people: PEOPLE });
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  const asked: string[] = [];
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.pathname === '/api/wallets') asked.push(url.search);
  });
  await page.goto('/wallets');
  await settled(page);
  const tree = page.getByRole('table', { name: 'Wallets' });
  await tree.getByRole('link', { name: org.name }).waitFor();
  const rows = tree.locator('tbody tr');
  const closed = await rows.count();
  expect(asked.some((search) => search.includes('member_of'))).toBe(false);
  await tree.getByRole('button', { name: `People of ${team}` }).click();
  await tree.getByRole('button', { name: `Show ${PAGE} more` }).waitFor();
  // A page of people, and the button that shows more.
  expect(await rows.count()).toBe(closed + PAGE + 1);
  await tree.getByRole('button', { name: `Show ${PAGE} more` }).click();
  await rows.nth(closed + 2 * PAGE).waitFor();
  expect(await rows.count()).toBe(closed + 2 * PAGE + 1);
  const of_team = asked.filter((search) => search.includes(`member_of=${team_id}`));
  expect(of_team).toHaveLength(2);
  expect(of_team.every((search) => search.includes(`per_page=${PAGE}`))).toBe(true);
  // What is opened stands in the address.
  await page.reload();
  await tree.getByRole('button', { name: `Show ${PAGE} more` }).waitFor();
  await page.getByLabel('Name').fill('Holder 77');
  await page.getByRole('table', { name: 'Wallets' }).getByText('Holder 77').first().waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

describe.each([
  ['light', 1_200],
  ['dark', 1_200],
  ['light', 320],
] as const)('in %s colours at %s px', (scheme, width) => {
  test('the tree fits, has what axe asks for, and shows both balances before money moves', async () => {
    const route = `/v1/organizations/${org.id}/teams`;
    const name = `Moved in ${scheme} at ${width}`;
    const { id } = await api<{ id: string }>(org.keys.owner, 'POST', route, { name });
    await api(org.keys.billing_admin, 'POST', '/v1/wallets/allocate', { team_id: id, amount: 1 });
    const access_key = org.keys.billing_admin;
    const { page, context, complaints } = await visit(browser, { access_key, scheme, width });
    await page.goto('/wallets');
    await settled(page);
    await page.getByRole('button', { name: `People of ${name}` }).click();
    await page.getByText('Nobody here has a wallet of their own').waitFor();
    await picture(page, `wallets-tree-${scheme}-${width}`);
    const wide = await page.evaluate<number>('document.documentElement.scrollWidth');
    expect(wide).toBeLessThanOrEqual(width);
    expect(await violations(page)).toEqual([]);
    await page.getByRole('row', { name }).getByRole('button', { name: 'Give' }).click();
    await page.getByLabel('Amount in USD').fill('2.5');
    const after = page.getByRole('table', { name: 'Balances after this' });
    await after.getByRole('row', { name }).getByText('$3.50').waitFor();
    // By what it has now, though somebody else gives it money meanwhile.
    await api(org.keys.billing_admin, 'POST', '/v1/wallets/allocate', { team_id: id, amount: 1 });
    await after.getByRole('row', { name }).getByText('$4.50').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Give', exact: true }).click();
    await page.getByRole('row', { name }).getByText('$4.50').waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});

test('whoever may make no new money is not offered to', async () => {
  const filled = await makeOrganization('Filled by the platform', 1);
  const { page, context, complaints } = await visit(browser, {
    access_key: filled.keys.billing_admin,
  });
  await page.goto('/wallets');
  await page.getByRole('button', { name: 'Credit by hand' }).waitFor();
  const settings = `/v1/admin/organizations/${filled.id}/wallet-settings`;
  const rule = { manual_credit: 'platform_only' };
  await api(demo().keys.platform_admin, 'PUT', settings, rule);
  const read = page.waitForResponse('**/api/wallet-settings/*');
  await page.reload();
  await (await read).finished();
  await page.getByRole('table', { name: 'Wallets' }).getByText(filled.name).waitFor();
  await settled(page);
  expect(await page.getByRole('button', { name: 'Credit by hand' }).count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test('the first money of a team and of a person is given here, though neither has a wallet yet', async () => {
  const route = `/v1/organizations/${org.id}/teams`;
  const team = 'Without a wallet';
  await api(org.keys.owner, 'POST', route, { name: team });
  const members = `/v1/organizations/${org.id}/members`;
  const person = 'Without money';
  await api(org.keys.owner, 'POST', members, { name: person, role: 'member' });
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.goto('/wallets');
  const tree = page.getByRole('table', { name: 'Wallets' });
  await tree.getByRole('link', { name: org.name }).waitFor();
  const give = async (choose: () => Promise<void>, name: string) => {
    await page.getByRole('button', { name: 'Give money to…' }).click();
    const finding = page.getByRole('dialog', { name: 'Give money to…' });
    await finding.waitFor();
    await choose();
    await page.getByRole('option', { name, exact: true }).click();
    await finding.getByRole('button', { name: 'Go on' }).click();
    const moving = page.getByRole('dialog', { name: `Give money to ${name}` });
    await moving.getByLabel('Amount in USD').fill('1.25');
    const after = moving.getByRole('table', { name: 'Balances after this' });
    await after.getByRole('row', { name }).getByText('$1.25').waitFor();
    await moving.getByRole('button', { name: 'Give', exact: true }).click();
    await moving.waitFor({ state: 'detached' });
  };
  /** Types until it is found: a list that closes takes focus and words away. */
  const find = async (label: string, words: string) => {
    const option = page.getByRole('option', { name: words, exact: true });
    let timeout = 1_000;
    await until(async () => {
      await page.getByRole('combobox', { name: label }).fill(words);
      // A busy machine finds it later, and is to be let.
      timeout *= 2;
      return option.waitFor({ timeout }).then(
        () => true,
        () => false,
      );
    });
  };
  await give(() => find('Which team', team), team);
  await tree.getByRole('row', { name: team }).getByText('$1.25').waitFor();
  await give(async () => {
    await page.getByRole('combobox', { name: 'To', exact: true }).click();
    await page.getByRole('option', { name: 'a person' }).click();
    await find('Which person', person);
  }, person);
  await page.getByLabel('Name').fill(person);
  await page.getByRole('row', { name: person }).getByText('$1.25').waitFor();
  // Both sides name the other one, and who it was.
  await page.goto(`/wallets/${org.wallet_id}`);
  const entry = page.getByRole('table', { name: 'Ledger' }).getByRole('row', { name: person });
  await entry.getByText(`Given to ${person}`).waitFor();
  await entry.getByRole('link', { name: person }).click();
  const received = page.getByRole('table', { name: 'Ledger' }).getByRole('row');
  await received.getByText(`Received from ${org.name}`).waitFor();
  await picture(page, 'wallet-of-a-person');
  expect(complaints).toEqual([]);
  await context.close();
});

test('wallets and their entries are read anew where no event comes', async () => {
  const { page, context } = await visit(browser, { access_key: org.keys.billing_admin });
  await page.route('**/api/events/stream', (route) => route.fulfill({ status: 403, json: {} }));
  await page.clock.install();
  const again = async (path: RegExp) => {
    let is_asked = false;
    const hear = (one: Request) => {
      if (path.test(one.url())) is_asked = true;
    };
    page.on('request', hear);
    await until(async () => {
      await page.clock.fastForward(1_000);
      return is_asked;
    });
    page.off('request', hear);
  };
  await page.goto('/wallets');
  await page.getByRole('table', { name: 'Wallets' }).getByRole('link').first().waitFor();
  await settled(page);
  await again(/\/api\/wallets\?.*owner_type=team/);
  await page.goto(`/wallets/${org.wallet_id}`);
  await page.getByRole('table', { name: 'Ledger' }).waitFor();
  await settled(page);
  await again(/\/api\/wallets\/[^/]+\/transactions/);
  await context.close();
});

test("an admin of a team gives its members the team's money, and takes it back", async () => {
  const base = `/v1/organizations/${org.id}`;
  const name = 'Led by its admin';
  const { keys, member } = org;
  const { id } = await api<{ id: string }>(keys.owner, 'POST', `${base}/teams`, { name });
  const inside = `${base}/teams/${id}/members`;
  await api(keys.owner, 'POST', inside, { user_id: member.user_id });
  await api(keys.owner, 'PUT', `${inside}/${member.user_id}`, { role: 'admin' });
  const { user_id } = await api<{ user_id: string }>(keys.owner, 'POST', `${base}/members`, {
    name: 'Led',
    role: 'member',
  });
  await api(keys.owner, 'POST', inside, { user_id });
  await api(keys.billing_admin, 'POST', '/v1/wallets/allocate', { team_id: id, amount: 3 });
  const { page, context } = await visit(browser, { access_key: keys.member });
  await page.goto('/people?tab=teams');
  await page.getByRole('button', { name: `Members of ${name}` }).click();
  const balance = async () => {
    const { wallets } = await api<{ wallets: { balance: number }[] }>(
      keys.billing_admin,
      'GET',
      `/v1/wallets?user_id=${user_id}`,
    );
    return wallets[0]?.balance;
  };
  for (const [label, way, amount, has] of [
    ['Give', 'Give money of the team to Led', '2', 2],
    ['Take back', 'Take money for the team back from Led', '0.5', 1.5],
  ] as const) {
    await page.getByRole('button', { name: `${label}: Led`, exact: true }).click();
    const form = page.getByRole('dialog', { name: way });
    await form.getByLabel('Amount in USD').fill(amount);
    await form.getByRole('button', { name: label, exact: true }).click();
    await form.waitFor({ state: 'detached' });
    expect(await balance()).toBe(has);
  }
  await page.getByRole('row', { name: 'Led', exact: false }).getByText('$1.50').waitFor();

  // On the page of the team's wallet too; the tree says what it does not show.
  await page.goto('/wallets');
  await page.getByRole('button', { name: `People of ${name}` }).click();
  await page.getByText('Wallets of other people are shown to whoever bills.').waitFor();
  expect(await page.getByText('Nobody here has a wallet of their own').count()).toBe(0);
  await page.getByRole('link', { name }).click();
  await page.getByRole('tab', { name: 'Give and take back' }).click();
  await page.getByRole('row', { name: /^Led/ }).getByText('$1.50').waitFor();
  await page.getByRole('button', { name: 'Take back: Led', exact: true }).click();
  const form = page.getByRole('dialog', { name: 'Take money for the team back from Led' });
  // Both sides stand there before anybody presses; the person's other money is not a lead's to see.
  const after = form.getByRole('table', { name: 'Balances after this' });
  await form.getByLabel('Amount in USD').fill('0.5');
  await after.getByRole('row', { name: `Team ${name} $1.50 $2.00` }).waitFor();
  await after.getByRole('row', { name: "Led, of the team's money $1.50 $1.00" }).waitFor();
  expect(await after.getByRole('row').count()).toBe(3);
  await form.getByLabel('Amount in USD').fill('2');
  await after.getByText('more than it has').waitFor();
  await form.getByRole('button', { name: 'Take back', exact: true }).click();
  await form.getByText('Only 1.5 USD is left of what the team gave').waitFor();
  await form.getByLabel('Amount in USD').fill('1.5');
  await form.getByRole('button', { name: 'Take back', exact: true }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByRole('row', { name: /^Led/ }).getByText('$0.00').waitFor();
  expect(await violations(page)).toEqual([]);
  await context.close();
});

test('a billing admin says when a wallet is low, and takes that back', async () => {
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  const own = async () => {
    const path = `/v1/wallets/${org.wallet_id}`;
    return (await api(org.keys.billing_admin, 'GET', path)).low_balance_threshold;
  };
  await page.goto(`/wallets/${org.wallet_id}`);
  for (const [typed, kept] of [
    ['1,000.5', 1_000.5],
    ['', null],
  ] as const) {
    await page.getByRole('button', { name: 'Low-balance alert' }).click();
    const form = page.getByRole('dialog');
    await form.getByLabel('Low below, in USD').fill(typed);
    await form.getByRole('button', { name: 'Save', exact: true }).click();
    await form.waitFor({ state: 'detached' });
    expect(await own()).toBe(kept);
  }
  expect(complaints).toEqual([]);
  await context.close();
});
