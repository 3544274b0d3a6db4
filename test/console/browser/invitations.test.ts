import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { api, demo, visit } from '../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const owner = () => process.env.SVC_CONSOLE_OWNER_KEY as string;
const members = () => `/v1/organizations/${demo().organization_id}/members`;
const key_field = 'Access key or one-time code';
let made = 0;

/** A new member whom nobody signs in as, and how to invite them by the API. */
async function newMember() {
  made += 1;
  const name = `Ines Invited ${Date.now()} ${made}`;
  const { user_id } = await api<{ user_id: string }>(owner(), 'POST', members(), { name });
  const at = `${members()}/${user_id}`;
  const invite = async () =>
    (await api<{ invitation: string }>(owner(), 'POST', `${at}/invitations`)).invitation;
  return { name, at, invite };
}

async function signInAs(page: Page, person: string): Promise<void> {
  await page.getByRole('button', { name: 'Sign in with Sandbox' }).click();
  await page.getByRole('button', { name: person }).click();
}

test('an invited person opens the link, signs in at the identity provider, and is the member; the link works once', async () => {
  const { name, at } = await newMember();
  const inviting = await visit(browser, { role: 'owner' });
  await inviting.page.goto(`/people?q=${encodeURIComponent(name)}`);
  await inviting.page.getByRole('button', { name: `Change ${name}` }).click();
  await inviting.page.getByRole('menuitem', { name: 'Invite to sign in' }).click();
  const form = inviting.page.getByRole('dialog');
  await form.getByRole('button', { name: 'Create invitation' }).click();
  const link = (await inviting.page.getByTestId('invitation').textContent()) ?? '';
  expect(link).toMatch(/^http:\/\/\S+\/login#invitation=svc_otc_\S{20,}$/);
  await form.getByRole('button', { name: 'Copy the link' }).waitFor();
  await inviting.context.close();

  const { page, context, complaints } = await visit(browser);
  // The same page with another fragment: it is not loaded anew.
  await page.goto(link);
  await page.getByText('You are invited').waitFor();
  expect(await page.getByLabel(key_field).count()).toBe(0);
  await signInAs(page, 'Olaf Outsider');
  await page.getByRole('button', { name }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();

  const second = await visit(browser);
  await second.page.goto(link);
  await signInAs(second.page, 'Uma Unverified');
  await second.page.getByText('This invitation is unknown, used, taken back or too old.').waitFor();
  await second.context.close();

  const again = await visit(browser);
  await signInAs(again.page, 'Olaf Outsider');
  await again.page.getByRole('button', { name }).waitFor();
  await again.context.close();
  const { identities } = await api<{ identities: { id: string }[] }>(
    owner(),
    'GET',
    `${at}/identities`,
  );
  for (const { id } of identities) await api(owner(), 'DELETE', `${at}/identities/${id}`);
});

test('an invitation that is entered as a key, or its link, asks for the sign-in; one that is void is told', async () => {
  const { name, at, invite } = await newMember();
  const { page, context } = await visit(browser);
  const field = page.getByLabel(key_field);
  const code = await invite();
  for (const entered of [code, ` ${demo().console_url}/login#invitation=${code} `]) {
    await field.fill(entered);
    await field.press('Enter');
    await page.getByText('You are invited').waitFor();
    await page.getByRole('button', { name: 'Sign in without the invitation' }).click();
  }
  await field.fill(code);
  await field.press('Enter');
  // A role of more voids it.
  await api(owner(), 'PUT', at, { role: 'admin' });
  await signInAs(page, 'Olaf Outsider');
  await page.getByText('This invitation is unknown, used, taken back or too old.').waitFor();
  expect(await page.getByRole('button', { name }).count()).toBe(0);
  await field.fill(code);
  await field.press('Enter');
  await page.getByText('This code is unknown, used, void or too old.').waitFor();
  await context.close();
});

test.each([
  ['Uma Unverified', 'has not verified your e-mail address'],
  ['Olaf Outsider', 'Nobody has let this account in.'],
])('why %s is not signed in is told: %s', async (person, words) => {
  const { page, context } = await visit(browser);
  await signInAs(page, person);
  await page.getByText(words).waitFor();
  await context.close();
});

test('a link to the page of sign-in puts no words of its maker on it', async () => {
  const { page, context } = await visit(browser);
  for (const said of [
    'failed=Pay+me&param=now',
    'failed=toString',
    'failed=org_required&param=x',
  ]) {
    await page.goto(`/login?${said}`);
    const told = await page.getByRole('alert').textContent();
    expect(told).not.toMatch(/Pay me|now|native/);
    expect(told).toMatch(/The sign-in did not work|You are a member of several/);
  }
  await context.close();
});
