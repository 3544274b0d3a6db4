import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { makeOrganization, type TestOrganization } from '../../support/console/organization';
import { api, ask, demo, visit } from '../../support/console/visitor';

// People of an identity provider who are in several organizations, or whose session ends.

let browser: Browser;
let issuer_id: string;
let first: TestOrganization;
let second: TestOrganization;

const admin = () => demo().keys.platform_admin;

beforeAll(async () => {
  browser = await openBrowser();
  first = await makeOrganization('First of two', 1);
  second = await makeOrganization('Second of two', 1);
  const { issuers } = await api<{ issuers: Record<string, unknown>[] }>(
    admin(),
    'GET',
    '/v1/admin/issuers',
  );
  const known = issuers.find(({ name }) => name === 'Sandbox') ?? {};
  const { issuer, jwks_url, authorization_url, token_url } = known;
  const made = await api<{ id: string }>(admin(), 'POST', '/v1/admin/issuers', {
    ...{ issuer, jwks_url, authorization_url, token_url },
    ...{ name: 'Everywhere', client_id: 'another-product' },
  });
  issuer_id = made.id;
});
afterAll(async () => {
  await api(admin(), 'DELETE', `/v1/admin/issuers/${issuer_id}`);
  await browser.close();
});

async function signInBy(page: Page, provider: string, person: string): Promise<void> {
  await page.getByRole('button', { name: `Sign in with ${provider}` }).click();
  await page.getByRole('button', { name: person }).click();
}

/** Binds somebody at the identity provider to the member of an organization. */
async function bind({ id, member, keys }: TestOrganization, person: string): Promise<void> {
  const at = `/v1/organizations/${id}/members/${member.user_id}/invitations`;
  const { invitation } = await api<{ invitation: string }>(keys.owner, 'POST', at);
  const { page, context } = await visit(browser);
  await page.goto('about:blank');
  await page.goto(`/login#invitation=${invitation}`);
  await page.getByText('You are invited').waitFor();
  await signInBy(page, 'Everywhere', person);
  await page.getByRole('button', { name: member.name }).waitFor();
  await context.close();
}

test('a member of two organizations chooses the one to sign in to, and comes to the wanted page', async () => {
  await bind(first, 'Olaf Outsider');
  await bind(second, 'Olaf Outsider');
  const { page, context, complaints } = await visit(browser);
  await page.goto('/keys');
  await signInBy(page, 'Everywhere', 'Olaf Outsider');
  const group = page.getByRole('group', { name: 'Your organizations' });
  await group.getByRole('button', { name: first.name }).waitFor();
  await group.getByRole('button', { name: second.name }).click();
  await page.waitForURL('**/keys');
  await page.getByRole('button', { name: second.member.name }).waitFor();
  // What was offered is taken out of the browser.
  const kept = (await context.cookies(demo().console_url)).map(({ name }) => name);
  expect(kept.filter((name) => name.startsWith('__Host'))).toEqual(['__Host-Http-svc']);
  expect(complaints).toEqual([]);
  await context.close();
});

test('somebody else’s link offers nothing', async () => {
  const { page, context } = await visit(browser);
  await page.goto('/login?failed=org_required');
  await page.getByText('You are a member of several organizations. Ask an admin').waitFor();
  expect(await page.getByRole('group', { name: 'Your organizations' }).count()).toBe(0);
  await context.close();
});

test('whoever signs in anew by an identity provider does so in another tab, and what was typed stays', async () => {
  const { page, context, complaints } = await visit(browser);
  await page.goto('/settings?tab=notices');
  await signInBy(page, 'Sandbox', 'Fay Finance');
  await page.getByRole('button', { name: 'New destination' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('typed before it ended');
  await page.getByRole('textbox', { name: 'Address' }).fill('https://hooks.example/1');
  // Ended elsewhere: the cookie of this browser is as it was.
  const other = await visit(browser);
  await other.context.addCookies(await context.cookies());
  expect(await ask(other.page, 'DELETE', '/api/session')).toBe(204);
  await page.getByRole('button', { name: 'Make it' }).click();
  const ended = page.getByText('Your session has ended.');
  await ended.waitFor();
  const opened = context.waitForEvent('page');
  await page.getByRole('link', { name: 'Sign in by your identity provider' }).click();
  const tab = await opened;
  await tab.waitForURL('**/login**');
  expect(new URL(tab.url()).searchParams.get('org')).toBe(demo().organization_id);
  await tab.getByRole('button', { name: 'Sign in with Sandbox' }).click();
  // The provider may know them still.
  const back = tab.getByRole('button', { name: 'Fay Finance' });
  await back.click();
  await tab.waitForURL('**/');
  await ended.waitFor({ state: 'detached' });
  const name = page.getByRole('textbox', { name: 'Name' });
  expect(await name.inputValue()).toBe('typed before it ended');
  expect(complaints).toEqual([]);
  await other.context.close();
  await context.close();
});
