import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { makeOrganization, type TestOrganization } from '../../support/console/organization';
import { api, demo, picture } from '../../support/console/visitor';
import { until } from '../../support/until';

// The page of one-time links, which the API serves: whoever got a notice decides there.

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Approving', 0.000000001)]);
});
afterAll(() => browser.close());

interface Ticket {
  id: string;
  status: string;
  decided_by: string | null;
}

const ticketOf = (id: string) => api<Ticket>(org.keys.owner, 'GET', `/v1/cost-tickets/${id}`);

/** A call that no wallet covers, and the two links that Slack got of its ticket. */
async function heldCall() {
  const { gateway_url, models, sandbox } = demo();
  const path = `/slack/approvals-${Date.now()}`;
  const { id: destination } = await api<{ id: string }>(
    ...([org.keys.owner, 'POST', '/v1/notice-destinations'] as const),
    {
      name: path,
      channel: 'slack',
      url: `${sandbox.notices_url}${path}`,
      kinds: ['ticket_created'],
    },
  );
  const refused = await fetch(`${gateway_url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${org.keys.gateway}`,
      'content-type': 'application/json',
      'x-svc-hold-ms': '0',
    },
    body: JSON.stringify({ model: models[0], messages: [{ role: 'user', content: path }] }),
  });
  expect(refused.status).toBe(402);
  const { cost_ticket } = (await refused.json()) as { cost_ticket: Ticket };
  let links: string[] = [];
  await until(async () => {
    const answer = await fetch(`${sandbox.notices_url}/sandbox/messages`);
    const { messages } = (await answer.json()) as { messages: Arrival[] };
    const body = messages.find((one) => one.path === path)?.body;
    links = (body?.blocks ?? []).flatMap(({ elements = [] }) => elements.map(({ url }) => url));
    return links.length > 0;
  });
  await fetch(`${demo().api_url}/v1/notice-destinations/${destination}`, {
    ...{ method: 'DELETE', headers: { authorization: `Bearer ${org.keys.owner}` } },
  });
  return { id: cost_ticket.id, approve: links[0] as string, deny: links[1] as string };
}

interface Arrival {
  path: string;
  body: { blocks?: { elements?: { url: string }[] }[] };
}

async function open(link: string, scheme: 'light' | 'dark' = 'light', width = 1_200) {
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport: { width, height: 800 },
  });
  const page = await context.newPage();
  await page.goto(link);
  return { page, context };
}

async function signIn(page: Page, key = org.keys.billing_admin): Promise<void> {
  await page.locator('#credential').fill(key);
  await page.keyboard.press('Enter');
}

test('looking decides nothing, one confirmation does, and a second one is told what stands', async () => {
  const ticket = await heldCall();
  // As a scanner of links would, and a person who only signs in.
  for (const link of [ticket.approve, ticket.deny]) expect((await fetch(link)).status).toBe(200);
  const { page, context } = await open(ticket.deny, 'dark', 320);
  await page.getByText('A request waits for your decision.').waitFor();
  // Nothing of the ticket is shown to whoever has the link alone.
  expect(await page.locator('#ticket').isVisible()).toBe(false);
  expect(page.url()).not.toContain('link=');
  await signIn(page);
  await page.getByText('Confirm, and the ticket is denied.').waitFor();
  await page.getByText('of Approving').waitFor();
  expect((await ticketOf(ticket.id)).status).toBe('open');
  expect(await violations(page)).toEqual([]);
  await picture(page, 'approvals-dark-320');
  await page.getByRole('button', { name: 'Deny' }).click();
  await page.getByText('Done: the ticket is denied.').waitFor();
  await page.getByText('billing_admin of Approving').waitFor();
  expect((await ticketOf(ticket.id)).status).toBe('denied');
  const sessions = async () => {
    const path = '/v1/sessions';
    return (await api<{ sessions: object[] }>(org.keys.billing_admin, 'GET', path)).sessions.length;
  };
  expect(await sessions()).toBe(1);
  // The page's session ends with the page.
  await page.goto('about:blank');
  await until(async () => (await sessions()) === 0);
  await context.close();
  for (const link of [ticket.deny, ticket.approve]) {
    const again = await open(link);
    await signIn(again.page, org.keys.owner);
    await again.page.getByText('This link is used up. The ticket is denied.').waitFor();
    expect(await again.page.getByRole('button', { name: /^(Approve|Deny)$/ }).count()).toBe(0);
    await again.context.close();
  }
});

test('of two links that are confirmed at once one decides, and both show the same', async () => {
  const ticket = await heldCall();
  const pages = await Promise.all([open(ticket.approve), open(ticket.deny)]);
  await signIn(pages[0].page);
  await signIn(pages[1].page, org.keys.owner);
  const [approve, deny] = [
    pages[0].page.getByRole('button', { name: 'Approve' }),
    pages[1].page.getByRole('button', { name: 'Deny' }),
  ];
  await Promise.all([approve.waitFor(), deny.waitFor()]);
  await Promise.all([approve.click(), deny.click()]);
  const told = await Promise.all(
    pages.map(async ({ page }) => {
      const news = page.getByText(/^(Done|It was decided before): the ticket is/);
      await news.waitFor();
      return (await news.textContent()) ?? '';
    }),
  );
  expect(told.filter((text) => text.startsWith('Done'))).toHaveLength(1);
  const { status, decided_by } = await ticketOf(ticket.id);
  expect(decided_by).not.toBeNull();
  const words = told.map((text) => text.split('the ticket is ')[1]);
  expect(words).toEqual([`${status}.`, `${status}.`]);
  await Promise.all(pages.map(({ context }) => context.close()));
});

test('whoever may not decide is told so, and the link lives on', async () => {
  const ticket = await heldCall();
  const { page, context } = await open(ticket.approve);
  await signIn(page, org.keys.member);
  // The asker sees their own ticket, and decides nothing about it.
  await page.getByRole('button', { name: 'Approve' }).click();
  await page.getByText(/^This needs the permission org:billing/).waitFor();
  expect((await ticketOf(ticket.id)).status).toBe('open');
  await context.close();
  const other = await open(ticket.approve);
  await signIn(other.page);
  await other.page.getByRole('button', { name: 'Approve' }).waitFor();
  await other.context.close();
});
