import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { type EmptyInstallation, startEmpty } from '../../support/console/empty-installation';
import { demo, picture, visit } from '../../support/console/visitor';

let browser: Browser;
let empty: EmptyInstallation;

beforeAll(async () => {
  [browser, empty] = await Promise.all([openBrowser(), startEmpty()]);
});
afterAll(() => Promise.all([browser.close(), empty.stop()]));

test('on an empty database a stranger with the first key is led to a call that is paid', async () => {
  const { page, context, complaints } = await visit(browser);
  const at = (route: string) => `${empty.console_url}${route}`;
  await page.goto(at('/login'));
  await page.getByLabel('Access key or one-time code').fill(empty.key);
  await page.keyboard.press('Enter');
  await page.getByText('Nothing is here yet').waitFor();
  await picture(page, 'first-run-home');
  await page.getByRole('link', { name: 'Begin' }).click();

  await page.getByLabel('Name').fill('First of all');
  await page.getByRole('button', { name: 'Make the organization' }).click();

  const [model] = demo().models as [string];
  await page.getByLabel('Model').fill(model);
  await page.getByLabel('Input').fill('0.15');
  await page.getByLabel('Output').fill('0.6');
  await page.getByRole('button', { name: 'Set the price' }).click();

  await page.getByLabel('Address').fill(`${demo().sandbox.models_url}/v1`);
  await page.getByLabel('Models').fill(model);
  await page.getByRole('button', { name: 'Make its key' }).click();
  const lines = page.getByLabel('How to start the gateway');
  await picture(page, 'first-run-gateway');
  expect(await violations(page)).toEqual([]);
  await empty.startGateway((await lines.textContent()) ?? '');
  await page.getByText('1 gateway reports').waitFor();
  await page.getByRole('button', { name: 'Apply to the gateways' }).click();

  await page.getByLabel('Amount in USD').fill('5');
  await page.getByRole('button', { name: 'Credit it' }).click();

  await page.getByRole('button', { name: 'Create key' }).click();
  const key = (await page.getByTestId('key').textContent()) ?? '';
  await page.getByRole('button', { name: 'I have copied it' }).click();
  await page.getByText('Waiting for the first call').waitFor();
  // As the snippet says; the gateway hears of its target within seconds.
  let answer: Response;
  do {
    answer = await fetch(`${empty.gateway_url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello' }] }),
    });
    await answer.text();
  } while ([404, 503].includes(answer.status));
  expect(answer.status).toBe(200);
  await page.getByText('the first call has arrived').waitFor();
  await picture(page, 'first-run-call');
  await page.getByRole('link', { name: 'See what it cost' }).click();
  await page.getByRole('table', { name: 'Price lines' }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});
