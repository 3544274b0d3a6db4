import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { demo, picture, visit } from '../../support/console/visitor';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

test('an operator comes from no organization to a call that is paid, in five screens', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.getByRole('link', { name: 'set another one up' }).click();
  const name = `First run ${Date.now()}`;
  await page.getByLabel('Name').fill(name);
  await page.getByRole('button', { name: 'Make the organization' }).click();

  const catalog = page.getByRole('link', { name: 'a catalog' });
  expect(await catalog.getAttribute('href')).toBe('/prices?tab=catalogs');
  await page.getByLabel('Model').fill(`model-${Date.now()}`);
  await page.getByLabel('Input').fill('0.15');
  await page.getByLabel('Output').fill('0.6');
  await page.getByRole('button', { name: 'Set the price' }).click();

  // What gateways that run must allow follows from the kind.
  await page.getByRole('combobox', { name: 'Kind of provider' }).fill('bedrock');
  await page.getByRole('option', { name: 'bedrock' }).click();
  await page.getByLabel('Region').fill('eu-west-1');
  await page
    .getByText(
      'GATEWAY_SECRET_ENVS=BEDROCK_API_KEY@https://bedrock-runtime.eu-west-1.amazonaws.com',
    )
    .waitFor();
  await picture(page, 'setup-kind');

  // The demo's gateways run their own file, which names the sandbox.
  await page.getByRole('button', { name: 'They have their own file: go on' }).click();

  await page.getByText('The wallet has $0.00.').waitFor();
  await page.getByLabel('Amount in USD').fill('5');
  await page.getByRole('button', { name: 'Credit it' }).click();

  const newKey = async (name: string) => {
    await page.getByLabel('Name of the key').fill(name);
    await page.getByRole('button', { name: 'Create key' }).click();
    const key = (await page.getByTestId('key').textContent()) ?? '';
    await page.getByRole('button', { name: 'I have copied it' }).click();
    await page.getByTestId('key').waitFor({ state: 'detached' });
    return key;
  };
  const { gateway_url, models } = demo();
  const call = async (key: string, content: string) => {
    const answer = await fetch(`${gateway_url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: models[0], messages: [{ role: 'user', content }] }),
    });
    return { status: answer.status, text: await answer.text() };
  };
  const other = await newKey('of somebody else');
  const key = await newKey('first key');
  await page.getByText('Waiting for the first call').waitFor();
  // Neither the call of another key nor one that fails has shown that this key works.
  expect((await call(other, 'Hello')).status).toBe(200);
  expect((await call(key, '[[fault:error status=400]]')).status).toBe(400);
  await page.getByText('The call arrived and failed: the caller got 400').waitFor();
  await page.getByRole('link', { name: 'See what happened' }).waitFor();
  expect(await page.getByText('It works').count()).toBe(0);
  expect(await call(key, 'Hello')).toEqual({
    status: 200,
    text: expect.stringContaining('Hello'),
  });
  await page.getByText('the first call has arrived').waitFor();
  await page.getByRole('button', { name }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});
