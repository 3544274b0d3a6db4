import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { makeOrganization, type TestOrganization } from '../../support/console/organization';
import { api, demo, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Rotators', 5)]);
});
afterAll(() => browser.close());

const statusOf = async (key: string) => {
  const headers = { authorization: `Bearer ${key}` };
  return (await fetch(`${demo().api_url}/v1/wallets/balance`, { headers })).status;
};

test.each([
  ['of a program', false],
  ['of a person', true],
])(
  'an access key %s is given another value, and the old one ends at once',
  async (_, of_person) => {
    const name = of_person ? 'access of a person' : 'access of a program';
    const body = { name, token_type: 'access', scopes: [] };
    const { key: old } = await api<{ key: string }>(org.keys.owner, 'POST', '/v1/tokens', {
      ...body,
      ...(of_person ? { user_id: org.member.user_id } : {}),
    });
    const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
    await page.goto('/keys?type=access');
    await page.getByRole('row', { name }).getByRole('button', { name: 'Rotate' }).click();
    await page.getByRole('combobox', { name: 'Old key expires' }).click();
    await page.getByRole('option', { name: 'at once' }).click();
    await page.getByRole('button', { name: 'Rotate key' }).click();
    const fresh = (await page.getByTestId('key').textContent()) ?? '';
    expect(fresh).toMatch(/^svc_ak_/);
    // What calls models is said of keys for models alone.
    expect(await page.getByRole('tab', { name: 'Claude Code' }).count()).toBe(0);
    await page.getByRole('button', { name: 'I have copied it' }).click();
    expect(await page.content()).not.toContain(fresh);
    expect(await statusOf(fresh)).toBe(200);
    await until(async () => (await statusOf(old)) === 401);
    expect(complaints).toEqual([]);
    await context.close();
  },
);

test('whoever manages keys makes one for a member, and changes its name, models, budget and end', async () => {
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  const one = (name: string) =>
    api<Record<string, unknown>>(org.keys.owner, 'GET', `/v1/tokens/${encodeURIComponent(name)}`);
  await page.goto('/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  const form = page.getByRole('dialog');
  await form.getByRole('textbox', { name: 'Name' }).fill('for a member');
  await form.getByRole('combobox', { name: 'For', exact: true }).click();
  await page.getByRole('option', { name: 'a member' }).click();
  await form.getByRole('combobox', { name: 'Which member' }).fill(org.member.name);
  await page.getByRole('option', { name: org.member.name }).click();
  const models = form.getByRole('combobox', { name: 'Models' });
  await models.fill('gpt-4o*');
  await models.press('Enter');
  await form.getByRole('button', { name: 'Create key' }).click();
  await page.getByTestId('key').waitFor();
  // The star is no model: the example names one that has a price.
  const example = page.getByLabel('How to use it with curl');
  await example.waitFor();
  const text = (await example.textContent()) ?? '';
  expect(text).toMatch(/"model": "gpt-4o[\w.-]*"/);
  expect(text).not.toContain('gpt-4o*');
  await page.getByRole('button', { name: 'I have copied it' }).click();
  const before = await one('for a member');
  expect(before).toMatchObject({ user_id: org.member.user_id, allowed_models: ['gpt-4o*'] });
  const row = page.getByRole('row', { name: 'for a member' });
  await row.getByRole('button', { name: 'Change', exact: true }).click();
  const dialog = page.getByRole('dialog', { name: 'Change for a member' });
  await dialog.getByRole('textbox', { name: 'Name' }).fill('of a member');
  await dialog.getByLabel('Budget in USD').fill('7.5');
  await dialog.getByRole('combobox', { name: 'Expires' }).click();
  await page.getByRole('option', { name: 'never' }).click();
  await dialog.getByRole('button', { name: 'Change the key' }).click();
  await dialog.waitFor({ state: 'detached' });
  expect(await one('of a member')).toMatchObject({
    id: before.id,
    max_budget: 7.5,
    expires_at: null,
    allowed_models: ['gpt-4o*'],
  });
  expect(complaints).toEqual([]);
  await context.close();
});

test('a person says what window the budget of their key is for, and reads at the field why one is refused', async () => {
  const owner = await visit(browser, { access_key: org.keys.owner });
  await owner.page.goto('/settings?tab=organization');
  await owner.page.getByRole('switch', { name: 'Members make keys for themselves' }).press('Space');
  await owner.page.getByLabel(/^What one key may spend in all/).fill('10');
  await owner.page.getByRole('combobox', { name: 'Window', exact: true }).click();
  await owner.page.getByRole('option', { name: 'each month' }).click();
  await owner.page.getByLabel(/^What one key may spend a month/).waitFor();
  await owner.page.getByRole('button', { name: 'Save the rule' }).click();
  await owner.page.getByText('The rule for keys of members is saved.').waitFor();
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.member });
  const own = () =>
    api<Record<string, unknown>>(org.keys.member, 'GET', '/v1/me/keys/a%20key%20of%20mine');
  await page.goto('/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  const form = page.getByRole('dialog');
  await form.getByRole('textbox', { name: 'Name' }).fill('a key of mine');
  const window = form.getByRole('combobox', { name: 'Window', exact: true });
  const choose = async (name: string) => {
    await window.click();
    await page.getByRole('option', { name }).click();
  };
  // What a key gets that names no window.
  await until(async () => (await window.inputValue()) === 'each month');
  const refused = form.getByText('budget_window is another window than your organization allows.');
  await choose('each day');
  await form.getByRole('button', { name: 'Create key' }).click();
  await refused.waitFor();
  expect(await window.getAttribute('aria-invalid')).toBe('true');
  expect(await form.getByRole('alert').count()).toBe(0);
  await choose('each month');
  await form.getByLabel('Budget').fill('5');
  await form.getByRole('button', { name: 'Create key' }).click();
  await page.getByTestId('key').waitFor();
  await page.getByRole('button', { name: 'I have copied it' }).click();
  expect(await own()).toMatchObject({ max_budget: 5, budget_window: 'month' });
  const row = page.getByRole('row', { name: 'a key of mine' });
  await row.getByRole('button', { name: 'Change', exact: true }).click();
  await form.getByRole('button', { name: 'Change the key' }).waitFor();
  expect(await window.inputValue()).toBe('each month');
  await choose('each hour');
  await form.getByRole('button', { name: 'Change the key' }).click();
  await refused.waitFor();
  await choose('its life');
  await form.getByRole('button', { name: 'Change the key' }).click();
  await form.waitFor({ state: 'detached' });
  expect(await own()).toMatchObject({ max_budget: 5, budget_window: null });
  expect([...complaints, ...owner.complaints]).toEqual([]);
  await context.close();
  await owner.context.close();
});

test("the key of a person of one team is that team's, unless they take it out", async () => {
  const root = `/v1/organizations/${org.id}`;
  const as_owner = <T>(path: string, body: object) =>
    api<T>(org.keys.owner, 'POST', `${root}/${path}`, body);
  await api(org.keys.owner, 'PUT', `${root}/member-keys`, { enabled: true });
  const { id: team_id } = await as_owner<{ id: string }>('teams', { name: 'One team' });
  await as_owner(`teams/${team_id}/members`, { user_id: org.member.user_id });
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.member });
  const form = page.getByRole('dialog');
  const team = form.getByRole('combobox', { name: 'Team', exact: true });
  const make = async (name: string) => {
    await page.getByRole('button', { name: 'New key' }).click();
    await form.getByRole('textbox', { name: 'Name' }).fill(name);
    expect(await team.inputValue()).toBe('One team');
  };
  const made = async (name: string) => {
    await form.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('button', { name: 'I have copied it' }).click();
    const path = `/v1/me/keys/${encodeURIComponent(name)}`;
    return (await api<{ team_id: string | null }>(org.keys.member, 'GET', path)).team_id;
  };
  await page.goto('/keys');
  await make('of my team');
  expect(await made('of my team')).toBe(team_id);
  await make('of no team');
  // What is chosen is taken out by choosing it again.
  await team.click();
  await page.getByRole('option', { name: 'One team' }).click();
  expect(await team.inputValue()).toBe('');
  expect(await made('of no team')).toBeNull();
  expect(complaints).toEqual([]);
  await context.close();
});

test('a key of no model stays one if its name alone is changed', async () => {
  const body = { name: 'of nothing', token_type: 'gateway', allowed_models: [] };
  await api(org.keys.owner, 'POST', '/v1/tokens', body);
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/keys');
  const row = page.getByRole('row', { name: 'of nothing' });
  await row.getByText('no model').waitFor();
  await row.getByRole('button', { name: 'Change', exact: true }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('It may call none until some are named.').waitFor();
  await dialog.getByRole('textbox', { name: 'Name' }).fill('of nothing at all');
  await dialog.getByRole('button', { name: 'Change the key' }).click();
  await dialog.waitFor({ state: 'detached' });
  const path = '/v1/tokens/of%20nothing%20at%20all';
  expect(await api(org.keys.owner, 'GET', path)).toMatchObject({ allowed_models: [] });
  expect(complaints).toEqual([]);
  await context.close();
});

test('a member is offered the lives that the organization allows, for each key anew', async () => {
  const rules = `/v1/organizations/${org.id}/member-keys`;
  await api(org.keys.owner, 'PUT', rules, { enabled: true, max_days: 60 });
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.member });
  const dialog = page.getByRole('dialog');
  const life = dialog.getByRole('combobox', { name: 'Expires' });
  const offered = async () => {
    await life.click();
    const words = await page.getByRole('option').allTextContents();
    await page.keyboard.press('Escape');
    return words;
  };
  await page.goto('/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await until(async () => (await life.inputValue()) === 'in 60 days');
  expect(await offered()).toEqual(['in 30 days', 'in 60 days']);
  await dialog.getByRole('textbox', { name: 'Name' }).fill('of sixty days');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('button', { name: 'I have copied it' }).click();
  const { created_at, expires_at } = await api<{ created_at: string; expires_at: string }>(
    org.keys.member,
    'GET',
    '/v1/me/keys/of%20sixty%20days',
  );
  const days = (Date.parse(expires_at) - Date.parse(created_at)) / 86_400_000;
  expect(days).toBeCloseTo(60, 1);
  await page.getByRole('button', { name: 'New key' }).click();
  await life.click();
  await page.getByRole('option', { name: 'in 30 days' }).click();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'New key' }).click();
  expect(await life.inputValue()).toBe('in 60 days');
  expect(complaints).toEqual([]);
  await context.close();
});

test('a member reads what an empty field gives, and draws a new value of the key that they made', async () => {
  const rules = `/v1/organizations/${org.id}/member-keys`;
  const allowed_models = ['gpt-4o*', 'mistral-small'];
  const bounds = { max_budget: 2, budget_window: 'hour', allowed_models };
  await api(org.keys.owner, 'PUT', rules, { enabled: true, max_keys: 50, ...bounds });
  const given = { name: 'made by the owner', token_type: 'gateway', user_id: org.member.user_id };
  await api(org.keys.owner, 'POST', '/v1/tokens', given);
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.member });
  await page.goto('/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('None: what your organization allows, gpt-4o*, mistral-small.').waitFor();
  await dialog.getByText('spend an hour; empty: $2.00, which your organization allows.').waitFor();
  await dialog.getByRole('textbox', { name: 'Name' }).fill('left empty');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  const first = (await page.getByTestId('key').textContent()) ?? '';
  await page.getByRole('button', { name: 'I have copied it' }).click();
  const own = () => api<object>(org.keys.member, 'GET', '/v1/me/keys/left%20empty');
  expect(await own()).toMatchObject(bounds);

  const row = page.getByRole('row', { name: 'left empty' });
  await row.getByRole('button', { name: 'Rotate' }).click();
  await dialog.getByRole('combobox', { name: 'Old key expires' }).click();
  await page.getByRole('option', { name: 'at once' }).click();
  await dialog.getByRole('button', { name: 'Rotate key' }).click();
  await page.getByText('It is shown only here.').waitFor();
  const second = (await page.getByTestId('key').textContent()) ?? '';
  expect([/^svc_gk_/.test(second), second === first]).toEqual([true, false]);
  await page.getByRole('button', { name: 'I have copied it' }).click();
  // Which somebody else made for them is theirs to revoke alone.
  const other = page.getByRole('row', { name: given.name });
  await other.getByRole('button', { name: 'Revoke' }).waitFor();
  expect(await other.getByRole('button').allTextContents()).not.toContain('Rotate');
  expect(await other.getByRole('button', { name: 'Change' }).count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test('what a form of a budget does not change stays as somebody else has made it meanwhile', async () => {
  const { id } = await api<{ id: string }>(org.keys.owner, 'POST', '/v1/budgets', {
    owner_type: 'organization',
    limit: 50,
    window: 'month',
  });
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/settings?tab=budgets');
  const row = page.getByRole('row', { name: org.name });
  await row.getByRole('button', { name: 'Change' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Limit in USD').waitFor();
  await api(org.keys.owner, 'PUT', `/v1/budgets/${id}`, { limit: 80 });
  await dialog.getByRole('combobox', { name: 'Calls beyond it' }).click();
  await page.getByRole('option', { name: 'waits for an approval' }).click();
  await dialog.getByRole('button', { name: 'Change', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  expect(await api(org.keys.owner, 'GET', `/v1/budgets/${id}`)).toMatchObject({
    limit: 80,
    window: 'month',
    on_exceed: 'ticket',
  });
  expect(complaints).toEqual([]);
  await context.close();
});
