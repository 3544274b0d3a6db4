import { createServer, type Server } from 'node:http';
import type { Browser, Page } from 'playwright-core';
import type Stripe from 'stripe';
import { listen } from '../../../runtime/listen';
import { createPaymentServerB } from '../../../sandbox/payments/b/provider';
import { openBrowser } from '../../support/browser';
import { close, operator, stripeClient } from '../../support/payments/sandbox';

let server: Server;
let merchant: Server;
let url: string;
let merchant_url: string;
let stripe: Stripe;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  server = createPaymentServerB();
  url = `http://127.0.0.1:${await listen(server, 0)}`;
  merchant = createServer((_req, res) => {
    res.end('Welcome back.');
  });
  merchant_url = `http://127.0.0.1:${await listen(merchant, 0)}`;
  stripe = stripeClient(url);
  browser = await openBrowser();
  page = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
});

afterAll(async () => {
  await browser.close();
  await close(server);
  await close(merchant);
});

async function checkout(name = 'Top-up of team Research') {
  const session = await stripe.checkout.sessions.create({
    mode: 'payment',
    line_items: [
      {
        quantity: 1,
        price_data: { currency: 'eur', unit_amount: 5_000, product_data: { name } },
      },
    ],
    success_url: `${merchant_url}/done?token={CHECKOUT_SESSION_ID}`,
    cancel_url: `${merchant_url}/canceled`,
  });
  return { id: session.id, url: session.url as string };
}

test('a person reads what is paid and pays by one click, without script, and is sent back', async () => {
  const { id, url: page_url } = await checkout();
  await page.goto(page_url);
  expect(await page.textContent('main')).toContain('Top-up of team Research');
  await page.click('text=Pay 50.00 EUR');
  expect(page.url()).toBe(`${merchant_url}/done?token=${id}`);
  expect((await stripe.checkout.sessions.retrieve(id)).payment_status).toBe('paid');
  await page.goto(page_url);
  expect(await page.textContent('section')).toContain('Paid.');
  expect(await page.locator('form').count()).toBe(0);
});

test('a person whose card is declined reads so, and pays by another; one who cancels is sent back unpaid', async () => {
  const declined = await checkout();
  await page.goto(declined.url);
  await page.click('text=declined');
  expect(await page.textContent('[role=alert]')).toContain('declined');
  await page.click('.pay');
  expect(page.url()).toContain('/done?token=');
  const canceled = await checkout();
  await page.goto(canceled.url);
  await page.click('text=Cancel');
  expect(page.url()).toBe(`${merchant_url}/canceled`);
  expect((await stripe.checkout.sessions.retrieve(canceled.id)).status).toBe('open');
});

test('an expired checkout says so, an unknown one too, and what a merchant writes is text', async () => {
  const { id, url: page_url } = await checkout('<b id="x">bold</b>');
  await page.goto(page_url);
  expect(await page.textContent('h1')).toBe('<b id="x">bold</b>');
  await operator(url, `orders/${id}/expire`, {});
  await page.reload();
  expect(await page.textContent('h1')).toBe('This checkout has expired');
  expect((await page.goto(`${url}/c/pay/none`))?.status()).toBe(404);
});
