import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Browser } from 'playwright-core';
import { parse } from 'yaml';
import { openBrowser } from '../../support/browser';
import { api, demo, picture, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const admin = () => demo().keys.platform_admin;

/** What the gateway of the demo runs from its own file. */
function gatewayFile(): unknown {
  const folder = path.dirname(process.env.SVC_CONSOLE_DEMO as string);
  return parse(readFileSync(path.join(folder, 'gateway.yaml'), 'utf8'));
}

/** A version in force, with what the gateway of the demo runs anyway. */
function makeVersion(note: string): Promise<{ version: number }> {
  return api(admin(), 'PUT', '/v1/admin/gateway-config', { config: gatewayFile(), note });
}

test('a new version begins with the one in force, and gateways are sent back to their files', async () => {
  const made = await makeVersion('In force');
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/config');
  await page.getByText(`Gateways are to run version ${made.version}.`).waitFor();
  await page.getByRole('button', { name: 'New version' }).click();
  const form = page.getByRole('dialog');
  await form.getByText(`It begins with version ${made.version}, which is in force.`).waitFor();
  const field = form.getByRole('textbox', { name: 'Configuration' });
  expect(parse(await field.inputValue())).toEqual(gatewayFile());
  await form.getByRole('button', { name: 'Check it' }).click();
  await form.getByText('It changes nothing.').waitFor();
  await picture(page, 'config-new-version');
  await form.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Back to files' }).click();
  await form.getByRole('button', { name: 'Send them back' }).click();
  await page.getByText('Gateways are to run their own files.').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('a version that comes into force while another is written is said, and what was checked is checked again', async () => {
  const first = await makeVersion('The first');
  const { page, context, complaints } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/config');
  await page.getByText(`Gateways are to run version ${first.version}.`).waitFor();
  await page.getByRole('button', { name: 'New version' }).click();
  const form = page.getByRole('dialog');
  await form.getByText(`It begins with version ${first.version}, which is in force.`).waitFor();
  const begin = form.getByRole('button', { name: 'Begin a rollout' });
  await form.getByRole('button', { name: 'Check it' }).click();
  await form.getByText('It changes nothing.').waitFor();
  expect(await begin.isEnabled()).toBe(true);
  const second = await makeVersion('The second');
  const told = form.getByText(`Meanwhile version ${second.version} came into force`);
  // It is read anew when somebody comes back to the window, after ten seconds at the earliest.
  await until(async () => {
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))");
    return (await told.count()) > 0;
  });
  await form.getByText(`It begins with version ${first.version}.`).waitFor();
  expect(await begin.isDisabled()).toBe(true);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a rollout whose watch was emptied is not begun', async () => {
  await makeVersion('To be rolled out');
  const { page, context } = await visit(browser, { role: 'platform_admin' });
  await page.goto('/config');
  await page
    .getByRole('table', { name: 'Versions' })
    .getByRole('button', { name: /^Roll out/ })
    .first()
    .click();
  const form = page.getByRole('dialog');
  const begin = form.getByRole('button', { name: 'Begin' });
  expect(await begin.isEnabled()).toBe(true);
  await form.getByLabel('Seconds that each stage is watched').fill('');
  expect(await begin.isDisabled()).toBe(true);
  await form.getByLabel('Seconds that each stage is watched').fill('0');
  expect(await begin.isEnabled()).toBe(true);
  await context.close();
  await api(admin(), 'DELETE', '/v1/admin/gateway-config');
});
