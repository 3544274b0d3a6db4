import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { api, demo, visit } from '../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const owner = () => process.env.SVC_CONSOLE_OWNER_KEY as string;

/** A living gateway key of a person or a team; its name. */
async function keyOf(of: { user_id?: string; team_id?: string }): Promise<string> {
  const name = `doomed ${Math.round(performance.now() * 1_000)}`;
  await api(owner(), 'POST', '/v1/tokens', { name, token_type: 'gateway', ...of });
  return name;
}

async function statusOf(name: string): Promise<string> {
  const { status } = await api<{ status: string }>(
    owner(),
    'GET',
    `/v1/tokens/${encodeURIComponent(name)}`,
  );
  return status;
}

test('a member is taken in, invited, raised and removed, and is told which keys end', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  const name = `Nora <script> ${Date.now()}`;
  await page.goto('/people');
  await page.getByRole('button', { name: 'New member' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Name').fill(name);
  await form.getByLabel('E-mail address').fill('nora@example.com');
  await form.getByRole('button', { name: 'Add member' }).click();
  await form.waitFor({ state: 'detached' });

  await page.getByLabel('Name or address').fill('nora');
  await page.waitForURL('**/people?q=nora');
  const row = page.getByRole('row', { name });
  const act = async (what: string) => {
    await row.getByRole('button', { name: `Change ${name}` }).click();
    await page.getByRole('menuitem', { name: what }).click();
  };
  await act('Invite to sign in');
  await form.getByRole('button', { name: 'Create invitation' }).click();
  expect(await page.getByTestId('invitation').textContent()).toMatch(/^\S{20,}$/);
  await form.getByRole('button', { name: 'I have copied it' }).click();
  await form.waitFor({ state: 'detached' });

  await act('Change name and address');
  await form.getByLabel('E-mail').fill('nora@example.org');
  await form.getByRole('button', { name: 'Save', exact: true }).click();
  await row.getByText('nora@example.org').waitFor();
  await form.waitFor({ state: 'detached' });

  await act('Change the role');
  await form.getByRole('combobox', { name: 'Role' }).click();
  await page.getByRole('option', { name: /^billing admin/ }).click();
  await form.getByRole('button', { name: 'Change the role' }).click();
  await row.getByText('billing admin').waitFor();
  await form.waitFor({ state: 'detached' });

  const found = await api<{ members: { user_id: string }[] }>(
    owner(),
    'GET',
    `/v1/organizations/${demo().organization_id}/members?q=nora`,
  );
  const [{ user_id } = { user_id: '' }] = found.members;
  const key = await keyOf({ user_id });
  await act('Remove');
  await form.getByText('1 key will be revoked at once').waitFor();
  await form.getByRole('list', { name: 'Keys to be revoked' }).getByText(key).waitFor();
  await form.getByRole('button', { name: 'Remove' }).click();
  await row.waitFor({ state: 'detached' });
  await page.getByText('1 key was revoked.').waitFor();
  expect(await statusOf(key)).toBe('revoked');
  expect(complaints).toEqual([]);
  await context.close();
});

test('a team is made, gets an admin, and is archived with its keys', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  const name = `Crew ${Date.now()}`;
  await page.goto('/people?tab=teams');
  await page.getByRole('button', { name: 'New team' }).click();
  const form = page.getByRole('dialog');
  await form.getByLabel('Name').fill(name);
  await form.getByRole('button', { name: 'Make the team' }).click();
  await form.waitFor({ state: 'detached' });
  const row = page.getByRole('row', { name });
  await row.getByRole('button', { name: `Members of ${name}` }).click();
  await form.getByRole('combobox', { name: 'Add member' }).fill('Mo');
  await page.getByRole('option', { name: 'Mo Member' }).click();
  await form.getByRole('button', { name: 'Add member', exact: true }).click();
  await form.getByRole('button', { name: 'Make its admin' }).click();
  await form.getByRole('cell', { name: 'admin' }).waitFor();
  await form.getByRole('button', { name: 'Close' }).click();
  await form.waitFor({ state: 'detached' });

  const { teams } = await api<{ teams: { id: string }[] }>(
    owner(),
    'GET',
    `/v1/organizations/${demo().organization_id}/teams?q=${encodeURIComponent(name)}`,
  );
  const key = await keyOf({ team_id: teams[0]?.id ?? '' });
  await row.getByRole('button', { name: 'Archive' }).click();
  await form.getByText(key).waitFor();
  await form.getByRole('button', { name: 'Archive' }).click();
  await row.waitFor({ state: 'detached' });
  expect(await statusOf(key)).toBe('revoked');
  expect(complaints).toEqual([]);
  await context.close();
});

test('whoever is taken out of a team loses their keys for it, which are shown first', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  const { organization_id } = demo();
  const at = `/v1/organizations/${organization_id}`;
  const name = `Leavers ${Date.now()}`;
  const team = await api<{ id: string }>(owner(), 'POST', `${at}/teams`, { name });
  const person = await api<{ user_id: string }>(owner(), 'POST', `${at}/members`, {
    name: 'Lea Leaver',
  });
  const of = { user_id: person.user_id };
  await api(owner(), 'POST', `${at}/teams/${team.id}/members`, of);
  const own = await keyOf({ ...of, team_id: team.id });
  const other = await keyOf(of);
  await page.goto(`/people?tab=teams&q=${encodeURIComponent(name)}`);
  await page.getByRole('button', { name: `Members of ${name}` }).click();
  await page.getByRole('button', { name: 'Remove Lea Leaver' }).click();
  const form = page.getByRole('dialog', { name: `Take Lea Leaver out of ${name}` });
  await form.getByText(own).waitFor();
  // Escape closes the dialog on top alone.
  await page.keyboard.press('Escape');
  await form.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Remove Lea Leaver' }).click();
  await form.getByText(own).waitFor();
  expect(await form.getByText(other).count()).toBe(0);
  expect(await statusOf(own)).toBe('active');
  await form.getByRole('button', { name: 'Remove', exact: true }).click();
  await form.waitFor({ state: 'detached' });
  expect([await statusOf(own), await statusOf(other)]).toEqual(['revoked', 'active']);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a member sees who is there, and can change nothing', async () => {
  const { page, context } = await visit(browser, { role: 'member' });
  await page.goto('/people');
  await page.getByRole('cell', { name: 'Olivia Owner' }).waitFor();
  expect(await page.getByRole('button', { name: /^New|^Change/ }).count()).toBe(0);
  await context.close();
});
