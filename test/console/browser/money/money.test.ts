import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { violations } from '../../../support/console/axe';
import { bank, call, drain, refill, whileHeld } from '../../../support/console/held-calls';
import { api, demo, picture, visit } from '../../../support/console/visitor';
import { pressFirst } from '../../../support/payments/sandbox';
import { until } from '../../../support/until';

/** What fades in has come; axe would read its colours half-way. */
const SETTLED_MS = 400;
/** What fades in or out has done so; what turns for ever is left out. */
const IS_STILL = `document.getAnimations().every(({ playState, effect }) =>
  playState !== 'running' || effect?.getComputedTiming().iterations === Infinity)`;

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const badge = (page: Page, count: number) => page.getByLabel(`${count} open tickets`);

describe('a call that no wallet covers', () => {
  beforeEach(drain);
  afterEach(refill);

  test('appears in the inbox by itself, is approved by two clicks, and is answered', async () => {
    const { page, context, complaints } = await visit(browser, { role: 'billing_admin' });
    await page.getByRole('link', { name: 'Tickets' }).first().click();
    await page.getByText('No open tickets').waitFor();
    const held = call();
    await page.getByText('a call is waiting now').waitFor();
    await badge(page, 1).waitFor();
    await page.getByRole('button', { name: 'Approve' }).click();
    const amount = page.getByLabel('Amount in USD');
    await until(async () => Number(await amount.inputValue()) > 0);
    const [sent] = await Promise.all([
      page.waitForRequest('**/api/tickets/*/approve'),
      page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click(),
    ]);
    // What nobody typed is not sent: what is missing may be another sum by then.
    expect(sent.postDataJSON()).not.toHaveProperty('amount');
    expect((await held).status).toBe(200);
    await page.getByText('No open tickets').waitFor();
    await badge(page, 1).waitFor({ state: 'detached' });
    expect(complaints).toEqual([]);
    await context.close();
  });

  test.each(['light', 'dark'] as const)(
    'has what axe asks for in %s colours: in the inbox, in both dialogs, and on its own page',
    async (scheme) => {
      const { page, context, complaints } = await visit(browser, { role: 'billing_admin', scheme });
      const held = call();
      await page.goto('/tickets');
      await page.getByText('a call is waiting now').waitFor();
      const look = async (name: string) => {
        // A tooltip is in no landmark, and the pointer may rest on something.
        await page.mouse.move(0, 0);
        await page.waitForTimeout(SETTLED_MS);
        await until(() => page.evaluate<boolean>(IS_STILL));
        await picture(page, `${name}-${scheme}`);
        expect([name, await violations(page)]).toEqual([name, []]);
      };
      await look('tickets-open');
      await page.getByRole('button', { name: 'Approve' }).click();
      await page.getByLabel('Amount in USD').waitFor();
      await look('ticket-approve');
      await page.keyboard.press('Escape');
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      await page
        .getByRole('link', { name: /Mo Member|Research/ })
        .first()
        .click();
      await page.getByRole('heading', { name: /^Ticket of/ }).waitFor();
      await look('ticket');
      await page.getByRole('link', { name: 'of the organization' }).click();
      await page.getByRole('heading', { name: /^Wallet of/ }).waitFor();
      await look('wallet');
      await page.goBack();
      await whileHeld(held, page.getByRole('button', { name: 'Deny' }).click());
      await page.getByLabel('Reason').waitFor();
      await look('ticket-deny');
      await page.getByRole('dialog').getByRole('button', { name: 'Deny' }).click();
      expect((await held).status).toBe(403);
      expect(complaints).toEqual([]);
      await context.close();
    },
  );

  test('is denied with a reason, which its caller reads', async () => {
    const { page, context } = await visit(browser, { role: 'billing_admin' });
    const held = call();
    await page.goto('/tickets');
    await page.getByRole('button', { name: 'Deny', exact: true }).click();
    await page.getByLabel('Reason').fill('Not this month');
    await page.getByRole('dialog').getByRole('button', { name: 'Deny' }).click();
    const { status, text } = await held;
    expect(status).toBe(403);
    expect(text).toContain('Not this month');
    await context.close();
  });

  test('that another person has decided says so calmly, and changes nothing', async () => {
    const { page, context } = await visit(browser, { role: 'owner' });
    const held = call();
    await page.goto('/tickets');
    await page.getByRole('button', { name: 'Approve' }).first().click();
    await page.getByLabel('Amount in USD').waitFor();
    const { keys } = demo();
    const { tickets } = await api<{ tickets: { id: string }[] }>(
      keys.billing_admin,
      'GET',
      '/v1/cost-tickets?status=open',
    );
    const id = tickets[0]?.id;
    await api(keys.billing_admin, 'POST', `/v1/cost-tickets/${id}/deny`, { reason: 'first' });
    expect((await held).status).toBe(403);
    await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
    await page.getByText('Already decided').waitFor();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await context.close();
  });

  test('goes on by a top-up, which the page of its return tells of', async () => {
    const { page, context, complaints } = await visit(browser, { role: 'billing_admin' });
    const held = call();
    await page.goto('/top-up');
    await page.getByRole('button', { name: '$25.00' }).first().click();
    await page.getByRole('button', { name: 'Pay $25.00' }).click();
    await page.waitForURL((url) => url.origin !== demo().console_url);
    const paid = await pressFirst(page.url());
    const back = paid.headers.get('location') as string;
    expect(back.startsWith(`${demo().console_url}/top-up/return`)).toBe(true);
    // Opened twice, reloaded, and closed: it is credited once.
    const second = await context.newPage();
    await Promise.all([page.goto(back), second.goto(back)]);
    await page.getByText('Credited', { exact: true }).last().waitFor();
    await second.close();
    await page.reload();
    await page.getByText(/was added to the wallet/).waitFor();
    expect((await held).status).toBe(200);
    // It is another person's call, which whoever bills has freed.
    await page.reload();
    await page.getByText(/\d calls? that waited went on\./).waitFor();
    const { balance } = await bank();
    expect(balance).toBeGreaterThan(24.9);
    expect(balance).toBeLessThanOrEqual(25);
    expect(complaints).toEqual([]);
    await context.close();
  });
});

test('money moves between wallets, whose balances after it stand there before anybody presses', async () => {
  const { page, context } = await visit(browser, { role: 'billing_admin' });
  await page.goto('/wallets');
  await page
    .getByRole('row', { name: /Savings/ })
    .getByRole('button', { name: 'Give' })
    .click();
  const before = await bank();
  await page.getByLabel('Amount in USD').fill('1.25');
  const after = page.getByRole('table', { name: 'Balances after this' });
  // What is shown is cut, never rounded up: all of it is there.
  const cents = BigInt((before.balance - 1.25).toFixed(9).replace('.', '')) / 10_000_000n;
  const shown = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
  await after.getByText(shown.format(Number(cents) / 100), { exact: true }).waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Give' }).click();
  await page.getByText('$1.25 was given to Savings.', { exact: true }).waitFor();
  expect((await bank()).balance).toBeCloseTo(before.balance - 1.25, 9);
  await page.getByRole('link', { name: 'Savings' }).click();
  await page.getByRole('cell', { name: '+$1.25' }).first().waitFor();
  await refill();
  await context.close();
});

test('a key is made, shown once, used, and revoked by its name', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const name = `made at the console ${Date.now()}`;
  await page.goto('/keys');
  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Create key' }).click();
  const key = (await page.getByTestId('key').textContent()) ?? '';
  for (const kind of ['SDK', 'Claude Code', 'Codex', 'Cursor', 'curl']) {
    await page.getByRole('tab', { name: kind }).click();
    const snippets = page.getByLabel(`How to use it with ${kind}`);
    await snippets.first().waitFor();
    const text = (await snippets.allTextContents()).join('\n');
    expect(text).toContain(key);
    expect(text).toContain(demo().gateway_url);
  }
  const { gateway_url } = demo();
  const models = () =>
    fetch(`${gateway_url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  expect((await models()).status).toBe(200);
  await page.getByRole('button', { name: 'I have copied it' }).click();
  expect(await page.content()).not.toContain(key);
  const row = page.getByRole('row', { name });
  await row.getByRole('button', { name: 'Revoke' }).click();
  const revoke = page.getByRole('dialog').getByRole('button', { name: 'Revoke' });
  expect(await revoke.isDisabled()).toBe(true);
  await page.getByLabel(`Type ${name} to go on`).fill(name);
  await revoke.click();
  await row.waitFor({ state: 'detached' });
  await until(async () => (await models()).status === 401);
  await context.close();
});

test('tabs of one browser share one stream of events', async () => {
  const { page, context } = await visit(browser, { role: 'billing_admin' });
  await page.goto('/tickets');
  await page.getByText('No open tickets').waitFor();
  // Whoever has the lock reads the stream; both want it once both are there.
  const second = await context.newPage();
  const streams: Page[] = [];
  context.on('request', (request) => {
    if (request.url().endsWith('/api/events/stream')) streams.push(request.frame().page());
  });
  await second.goto('/tickets');
  await second.getByText('No open tickets').waitFor();
  await drain();
  const held = call();
  // Both hear of it, one of them through the other.
  await Promise.all([page, second].map((one) => one.getByText('a call is waiting now').waitFor()));
  // The second reads none, though it has heard: the first goes on with its own.
  expect(streams).not.toContain(second);
  await page.close();
  await second.getByRole('button', { name: 'Approve' }).click();
  const amount = second.getByLabel('Amount in USD');
  await until(async () => Number(await amount.inputValue()) > 0);
  // To the last digit: a cent more would pay for another call.
  const open = await fetch(`${demo().api_url}/v1/cost-tickets?status=open`, {
    headers: { authorization: `Bearer ${demo().keys.billing_admin}` },
  });
  const { tickets } = (await open.json()) as { tickets: { shortfall: number }[] };
  expect(Number(await amount.inputValue())).toBe(tickets[0]?.shortfall);
  await second.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
  expect((await held).status).toBe(200);
  await second.getByText('No open tickets').waitFor();
  expect(streams).toContain(second);
  await refill();
  await context.close();
});
