import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { visit } from '../../../support/console/visitor';
import { until } from '../../../support/until';
import { answers, focused, say } from './chatting';

// What becomes of a chat's ticket that has paid already, or is not of this key: which of both is
// met hangs on moments, so the gateway's answers are given here.

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const MESSAGES = '**/api/chat/messages';

const refused = (status: number, code: string, more: object = {}) => ({
  status,
  json: { type: 'error', error: { code, message: `It is ${code}.`, type: 'api_error', ...more } },
});

/** The 402 of a call that no wallet covers, with this ticket. */
const held = (id: string) =>
  refused(402, 'insufficient_balance', {
    cost_ticket: {
      ...{ id, estimated_cost: 0.0199, shortfall: 0.001_234_56, currency: 'USD' },
      expires_at: new Date(Date.now() + 3_600_000).toISOString(),
    },
  });

/** The ticket that the page's next message names. */
async function nextTicket(page: Page): Promise<string | undefined> {
  const request = await page.waitForRequest(MESSAGES);
  return request.postDataJSON().ticket_id;
}

test('a message that was paid just before it was stopped is charged, and sent again it is a new call', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  let status = 'open';
  await page.route('**/api/tickets/ticket_1', (route) =>
    route.fulfill({ json: { id: 'ticket_1', status } }),
  );
  await page.route(MESSAGES, async (route) => {
    // With its ticket it waits.
    if (route.request().postDataJSON().ticket_id === undefined)
      await route.fulfill(held('ticket_1'));
  });
  await page.goto('/chat');
  await say(page, 'Now or never');
  // At most is never less than it may be.
  await page.getByText('It may cost up to $0.02; $0.00124 are missing').waitFor();
  await page.getByRole('button', { name: 'Do not wait' }).click();
  await page.getByText('Nothing was charged so far.').waitFor();
  expect(await focused(page)).toBe('TEXTAREA');
  status = 'redeemed';
  await page.getByText('It was paid just before you stopped').waitFor();
  await page.getByText('The model had begun, so its work is charged.').waitFor();
  expect(await page.getByText('Nothing was charged').count()).toBe(0);
  await page.reload();
  await page.getByText('It was paid just before you stopped').waitFor();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  const [ticket_id] = await Promise.all([nextTicket(page), say(page, 'Now or never')]);
  expect(ticket_id).toBeUndefined();
  await answers(page).getByText('You said: Now or never').waitFor();
  expect(await page.getByText('It was paid just before you stopped').count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test.each([
  ['ticket_redeemed', 'This message was asked already'],
  ['ticket_owner_differs', 'This ticket belongs to an earlier sign-in'],
])(
  'a ticket that is refused by %s is dropped, and the message is sent again without it',
  async (...given) => {
    const [code, title] = given;
    const { page, context, complaints } = await visit(browser, { role: 'owner' });
    await page.route(MESSAGES, (route) =>
      route.fulfill(
        route.request().postDataJSON().ticket_id === undefined
          ? held('ticket_2')
          : refused(409, code),
      ),
    );
    await page.goto('/chat');
    await say(page, 'Once more');
    await page.getByText(title).waitFor();
    const field = page.getByRole('textbox', { name: 'Message' });
    expect(await field.inputValue()).toBe('Once more');
    await page.unrouteAll({ behavior: 'wait' });
    const [ticket_id] = await Promise.all([nextTicket(page), say(page, 'Once more')]);
    expect(ticket_id).toBeUndefined();
    await answers(page).getByText('You said: Once more').waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  },
);

test('a message that waits goes on though its connection breaks and its server is away, and is asked with its ticket', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  const asked: (string | undefined)[] = [];
  await page.route(MESSAGES, (route) => {
    asked.push(route.request().postDataJSON().ticket_id);
    const answers = [
      () => route.fulfill(held('ticket_4')),
      () => route.abort('connectionreset'),
      () => route.fulfill(refused(503, 'unavailable')),
      () => route.fulfill({ status: 504, body: 'no JSON, of a proxy' }),
      () => route.fulfill(refused(429, 'rate_limit_exceeded')),
      () =>
        route.fulfill({
          contentType: 'text/event-stream',
          body: 'data: {"choices":[{"delta":{"content":"Paid"}}]}\n\ndata: [DONE]\n\n',
        }),
    ];
    return answers[asked.length - 1]?.();
  });
  await page.goto('/chat');
  await say(page, 'Keep waiting');
  await page.getByText('Your message waits for money').waitFor();
  await answers(page).getByText('Paid', { exact: true }).waitFor();
  expect(asked).toEqual([undefined, ...Array(5).fill('ticket_4')]);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a message that is refused while it waits uses its ticket when it is sent again', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.route('**/api/tickets/ticket_5', (route) =>
    route.fulfill({ json: { id: 'ticket_5', status: 'approved' } }),
  );
  await page.route(MESSAGES, (route) =>
    route.fulfill(
      route.request().postDataJSON().ticket_id === undefined
        ? held('ticket_5')
        : refused(403, 'model_not_allowed'),
    ),
  );
  await page.goto('/chat');
  await say(page, 'Not for now');
  await page.getByText('You may not use this model').waitFor();
  await page.getByText('You stopped waiting').waitFor();
  const [ticket_id] = await Promise.all([nextTicket(page), say(page, 'Not for now')]);
  expect(ticket_id).toBe('ticket_5');
  await context.close();
});

test('a new chat takes a message that waits along in its field, with its ticket', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.route('**/api/tickets/ticket_6', (route) =>
    route.fulfill({ json: { id: 'ticket_6', status: 'open' } }),
  );
  await page.route(MESSAGES, async (route) => {
    // With its ticket it waits.
    if (route.request().postDataJSON().ticket_id === undefined)
      await route.fulfill(held('ticket_6'));
  });
  await page.goto('/chat');
  await say(page, 'A long question');
  await page.getByText('Your message waits for money').waitFor();
  await page.getByRole('button', { name: 'New chat' }).click();
  await page.getByText('Ask something').waitFor();
  const field = page.getByRole('textbox', { name: 'Message' });
  expect(await field.inputValue()).toBe('A long question');
  await page.getByText('Nothing was charged so far.').waitFor();
  const [ticket_id] = await Promise.all([nextTicket(page), field.press('Enter')]);
  expect(ticket_id).toBe('ticket_6');
  expect(complaints).toEqual([]);
  await context.close();
});

test('a message whose session has ended brings the dialog that signs in again', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await page.getByRole('button', { name: 'New chat' }).waitFor();
  await context.clearCookies();
  await say(page, 'Who am I?');
  await page.getByRole('dialog', { name: 'You are signed out' }).waitFor({ timeout: 5_000 });
  await context.close();
});

test('a top-up for a message that waits buys what the wallet lacks that it fills', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const ticket = held('ticket_3');
  Object.assign((ticket.json.error as unknown as { cost_ticket: object }).cost_ticket, {
    shortfall: 12,
    wallets: [
      { wallet_id: 'wal_1', owner_type: 'team', balance: 8, shortfall: 12 },
      { wallet_id: 'wal_2', owner_type: 'organization', balance: -25, shortfall: 45 },
    ],
  });
  await page.route(MESSAGES, async (route) => {
    if (route.request().postDataJSON().ticket_id === undefined) await route.fulfill(ticket);
  });
  await page.goto('/chat');
  await say(page, 'Into the right one');
  await page.getByText(/\$45\.00 are missing in your organization's wallet/).waitFor();
  await page.getByRole('button', { name: 'Top up' }).click();
  const amount = page.getByRole('dialog').getByLabel('Amount in USD');
  await until(async () => Number(await amount.inputValue()) === 45);
  await context.close();
});

test('a checkout of the chat that was left is given up', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const checkout = { payment_session_id: 'pay_left', provider: 'payment_provider_a', mark: 'm1' };
  const kept = JSON.stringify([{ ...checkout, checkout_state: 'state' }]);
  await page.evaluate(`localStorage.setItem('svc-checkouts', ${JSON.stringify(kept)})`);
  const given_up = page.waitForRequest('**/api/payments/sessions/pay_left/cancel');
  await page.goto('/chat?canceled=m1');
  expect((await given_up).method()).toBe('POST');
  await context.close();
});
