import type { Browser } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { makeOrganization } from '../../../support/console/organization';
import { api, ask, demo, visit } from '../../../support/console/visitor';
import { pressFirst } from '../../../support/payments/sandbox';
import { until } from '../../../support/until';
import { answers, say } from './chatting';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

interface Key {
  name: string;
  status: string;
}

/** The keys of chats that live. */
async function chatKeys(): Promise<Key[]> {
  const owner = process.env.SVC_CONSOLE_OWNER_KEY as string;
  const { tokens } = await api<{ tokens: Key[] }>(
    owner,
    'GET',
    '/v1/tokens?q=chat&status=active&per_page=200',
  );
  return tokens;
}

/** All money of the organization, put aside where no call draws on it. */
async function drain(): Promise<void> {
  const { keys, savings_team_id: team_id } = demo();
  const { org_balance: amount } = await api<{ org_balance: number }>(
    keys.billing_admin,
    'GET',
    '/v1/wallets/balance',
  );
  if (amount > 0)
    await api(keys.billing_admin, 'POST', '/v1/wallets/allocate', { team_id, amount });
}

async function refill(): Promise<void> {
  const { keys, savings_team_id: team_id } = demo();
  const { team_balance: amount } = await api<{ team_balance: number }>(
    keys.billing_admin,
    'GET',
    `/v1/wallets/balance?team_id=${team_id}`,
  );
  if (amount > 0) await api(keys.billing_admin, 'POST', '/v1/wallets/reclaim', { team_id, amount });
}

test('an answer streams in with its cost, by a key that no script sees and that ends at sign-out', async () => {
  const { page, context, complaints, asked } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await say(page, 'Good morning');
  await answers(page).getByText('You said: Good morning').waitFor();
  await answers(page)
    .getByText(/gpt-4o-mini, cost \$0\.0000\d+/)
    .waitFor();
  await say(page, 'And again');
  await answers(page).getByText('You said: And again').waitFor();
  const held = await page.evaluate('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])');
  expect(held).not.toContain('svc_gk_');
  expect(await page.content()).not.toContain('svc_gk_');
  expect([...asked]).toEqual([demo().console_url]);
  const before = await chatKeys();
  expect(before.length).toBeGreaterThan(0);
  expect(await ask(page, 'DELETE', '/api/session')).toBe(204);
  expect((await chatKeys()).length).toBe(before.length - 1);
  expect(complaints).toEqual([]);
  await context.close();
});

test('the next person at a tab reads nothing of the chat of the one before', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const kept = () => page.evaluate<string>('JSON.stringify({ ...sessionStorage })');
  await page.goto('/chat');
  await say(page, 'Only mine');
  await answers(page).getByText('You said: Only mine').waitFor();
  expect(await kept()).toContain('Only mine');
  // Another person, without a sign-out: their session began elsewhere in this browser.
  const { billing_admin } = demo().keys;
  expect(await ask(page, 'POST', '/api/session', { access_key: billing_admin })).toBe(204);
  await page.goto('/chat');
  await page.getByRole('button', { name: 'Bea Billing' }).waitFor();
  await page.getByRole('heading', { name: 'Chat', exact: true }).waitFor();
  expect(await page.getByText('Only mine').count()).toBe(0);
  await context.close();
  // And after a sign-out nothing is left to find.
  const again = await visit(browser, { role: 'owner' });
  await again.page.goto('/chat');
  await say(again.page, 'Gone with me');
  await answers(again.page).getByText('You said: Gone with me').waitFor();
  await again.page.getByRole('button', { name: 'Olivia Owner' }).click();
  await again.page.getByRole('menuitem', { name: 'Sign out' }).click();
  await again.page.waitForURL('**/login');
  const left = await again.page.evaluate<string>('JSON.stringify({ ...sessionStorage })');
  expect(left).not.toContain('Gone with me');
  await again.context.close();
});

test('what a policy blocks is told in plain words, and stays in the field to be changed', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await say(page, 'Please svc verify: block this now');
  await page.getByText('Your organization blocked this message').waitFor();
  const field = page.getByRole('textbox', { name: 'Message' });
  expect(await field.inputValue()).toBe('Please svc verify: block this now');
  await say(page, 'Something else');
  await answers(page).getByText('You said: Something else').waitFor();
  await context.close();
});

test('a member whose organization makes no keys for its members is told so', async () => {
  const { page, context } = await visit(browser, { role: 'member' });
  await page.goto('/chat');
  await page.getByText('You may not chat here').waitFor();
  await page
    .getByText('Your organization does not let members chat with keys of their own.')
    .waitFor();
  await context.close();
});

test('a member who has as many keys as they may is told what to do, and goes to them', async () => {
  const org = await makeOrganization('Full of keys', 5);
  const rules = { enabled: true, max_keys: 1 };
  await api(org.keys.owner, 'PUT', `/v1/organizations/${org.id}/member-keys`, rules);
  await api(org.keys.member, 'POST', '/v1/me/keys', { name: 'the only one' });
  const { page, context } = await visit(browser, { access_key: org.keys.member });
  await page.goto('/chat');
  await page.getByText('You have reached your limit of keys').waitFor();
  await page.getByRole('link', { name: 'To your keys' }).click();
  await page.getByRole('row', { name: 'the only one' }).waitFor();
  await api(org.keys.member, 'DELETE', '/v1/me/keys/the%20only%20one');
  await page.getByRole('link', { name: 'Chat' }).click();
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await context.close();
});

describe('a message that no wallet covers', () => {
  beforeEach(drain);
  afterEach(refill);

  test('shows its ticket, and is answered once somebody approves it', async () => {
    const { page, context, complaints } = await visit(browser, { role: 'owner' });
    await page.goto('/chat');
    await say(page, 'Who pays for this?');
    await page.getByText('Your message waits for money').waitFor();
    const { keys } = demo();
    const open = () =>
      api<{ tickets: { id: string; waiting_calls: number }[] }>(
        keys.billing_admin,
        'GET',
        '/v1/cost-tickets?status=open',
      );
    await until(async () => (await open()).tickets.some((one) => one.waiting_calls > 0));
    const { tickets } = await open();
    const waiting = tickets.find((one) => one.waiting_calls > 0);
    await api(keys.billing_admin, 'POST', `/v1/cost-tickets/${waiting?.id}/approve`, {});
    await answers(page).getByText('You said: Who pays for this?').waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('that nobody waits for any more says what becomes of its ticket, and uses it when sent again', async () => {
    const { page, context, complaints } = await visit(browser, { role: 'owner' });
    await page.goto('/chat');
    const [again] = await Promise.all([
      page.waitForRequest(
        (one) => one.url().endsWith('/messages') && one.postDataJSON().ticket_id !== undefined,
      ),
      say(page, 'Not now'),
    ]);
    await page.getByText('Your message waits for money').waitFor();
    const { ticket_id } = again.postDataJSON();
    await page.getByRole('button', { name: 'Do not wait' }).click();
    await page.getByText('You stopped waiting').waitFor();
    const link = page.getByRole('link', { name: 'See the ticket' });
    expect(await link.getAttribute('href')).toBe(`/tickets/${ticket_id}`);
    await page.reload();
    await page.getByText('You stopped waiting').waitFor();
    const field = page.getByRole('textbox', { name: 'Message' });
    expect(await field.inputValue()).toBe('Not now');
    await api(demo().keys.billing_admin, 'POST', `/v1/cost-tickets/${ticket_id}/approve`, {});
    const [sent] = await Promise.all([
      page.waitForRequest('**/api/chat/messages'),
      say(page, 'Not now'),
    ]);
    expect(sent.postDataJSON().ticket_id).toBe(ticket_id);
    await answers(page).getByText('You said: Not now').waitFor();
    expect(await page.getByText('You stopped waiting').count()).toBe(0);
    expect(complaints).toEqual([]);
    await context.close();
  });

  test('is answered after a top-up at the provider, to which the page was left', async () => {
    const { page, context, complaints } = await visit(browser, { role: 'owner' });
    await page.goto('/chat');
    await say(page, 'I pay for this myself');
    await page.getByText('Your message waits for money').waitFor();
    await page.getByRole('button', { name: 'Top up' }).click();
    const form = page.getByRole('dialog');
    await until(async () => Number(await form.getByLabel('Amount in USD').inputValue()) > 0);
    await form.getByRole('button', { name: 'Pay' }).click();
    await page.waitForURL((url) => url.origin !== demo().console_url);
    const paid = await pressFirst(page.url());
    await page.goto(paid.headers.get('location') as string);
    await page.getByText(/was added to the wallet/).waitFor();
    await page.getByRole('link', { name: 'Back to the chat' }).click();
    await answers(page).getByText('You said: I pay for this myself').waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
