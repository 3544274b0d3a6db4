import { execFile } from 'node:child_process';
import type { Server } from 'node:http';
import { promisify } from 'node:util';
import type { Browser } from 'playwright-core';
import { blankPrice } from '../../domain/ledger/pricing';
import { many } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { createModelServer } from '../../sandbox/models/server';
import { createShop } from '../../sandbox/payments/shop';
import { openBrowser } from '../support/browser';
import { openTestGateway } from '../support/gateway';
import { gatewayToken, makeKey } from '../support/keys';
import { makePrice } from '../support/ledger';
import { makeBuyer, openPaymentWorld, type PaymentWorld } from '../support/payments/world';
import { until } from '../support/until';

// The whole promise in one test: a call that no wallet covers hangs, a person pays in a browser,
// and the call is answered.

const curl = promisify(execFile);
let world: PaymentWorld;
let browser: Browser;
const closing: (() => unknown)[] = [];

async function open(server: Server): Promise<string> {
  closing.push(
    () => server.closeAllConnections(),
    () => server.close(),
  );
  return `http://127.0.0.1:${await listen(server, 0)}`;
}

beforeAll(async () => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
  [world, browser] = await Promise.all([openPaymentWorld(), openBrowser()]);
});
afterAll(async () => {
  await browser.close();
  for (const end of closing) await end();
  await world.close();
});

test.each(['payment_provider_a', 'payment_provider_b'] as const)(
  'a held curl is answered when a person pays at %s in a browser',
  async (provider) => {
    const { db, api_url } = world;
    await world.use(provider);
    const tenant = await makeBuyer(db);
    const models_url = await open(createModelServer());
    await makePrice(db, {
      ...blankPrice,
      tiers: null,
      model: 'gpt-4o-mini',
      input_per_1m: 15,
      output_per_1m: 60,
    });
    const control_plane_token = await gatewayToken(db);
    const settings = { cost_tickets: { hold_ms: 300_000 } };
    const gateway = await openTestGateway({
      api_urls: [api_url],
      models_url,
      control_plane_token,
      settings,
      target: {},
    });
    closing.push(gateway.close);
    const shop_url = await open(createShop({ api_url, key: tenant.billing_key }));
    await world
      .db('payment_settings')
      .where({ org_id: tenant.org_id })
      .update({ return_origins: [shop_url] });
    const key = await makeKey(db, tenant.org_id, { token_type: 'gateway' });
    const body = { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Say hello.' }] };

    const held = curl('curl', [
      '-sS',
      '-w',
      '\n%{http_code}',
      `${gateway.url}/v1/chat/completions`,
      '-H',
      `authorization: Bearer ${key}`,
      '-H',
      'content-type: application/json',
      '-d',
      JSON.stringify(body),
    ]);
    await until(async () => (await waiting(tenant.org_id)) === 1);
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(shop_url);
    await page.locator('button').first().click();
    await page.waitForURL(/checkoutnow|\/c\/pay/);
    await page.getByRole('button', { name: /^Pay \d/ }).click();
    const { stdout } = await held;
    expect(stdout).toContain('"choices"');
    expect(stdout.trim().split('\n').at(-1)).toBe('200');
    await page.waitForURL(/\/return/);
    expect(await page.textContent('main')).toMatch(/completed|balance|credited/i);

    const entries = () =>
      many<{ type: string }>(
        db,
        'select type from wallet_transactions where wallet_id = :wallet_id order by seq',
        { wallet_id: tenant.wallet_id },
      );
    // A settlement follows its answer.
    await until(async () => (await entries()).length === 3);
    const types = await entries();
    expect(types.map(({ type }) => type)).toEqual(['payment_credit', 'reservation', 'settlement']);
    await context.close();
  },
);

async function waiting(org_id: string): Promise<number> {
  return (
    await many(world.db, 'select 1 from ticket_waiters where org_id = :org_id and answer is null', {
      org_id,
    })
  ).length;
}
