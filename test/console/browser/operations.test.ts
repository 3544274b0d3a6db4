import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Browser, Page, Route } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { overtake, tryAgain } from '../../support/console/look';
import { makeOrganization } from '../../support/console/organization';
import { api, ask, demo, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

async function operator() {
  const seen = await visit(browser, { role: 'platform_admin' });
  const org_id = demo().organization_id;
  expect(await ask(seen.page, 'PUT', '/api/session/org', { org_id })).toBe(204);
  return seen;
}

/** A call of the demo's key; the id of its request. */
async function call(words: string): Promise<string> {
  const { gateway_url, keys, models } = demo();
  const answer = await fetch(`${gateway_url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keys.gateway}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: models[0], messages: [{ role: 'user', content: words }] }),
  });
  expect(answer.status).toBe(200);
  return answer.headers.get('x-svc-request-id') as string;
}

/** What the demo's gateways run: the file beside demo.json. */
function gatewayFile(): string {
  const folder = path.dirname(process.env.SVC_CONSOLE_DEMO as string);
  return readFileSync(path.join(folder, 'gateway.yaml'), 'utf8');
}

/** Keeps a page's requests of an address from going out until they are released. */
async function holdBack(page: Page, address: string) {
  const held: Route[] = [];
  await page.route(address, (route) => void held.push(route));
  return {
    count: () => held.length,
    release: async () => {
      await page.unroute(address);
      // One that the page has given up is gone.
      await Promise.allSettled(held.map((route) => route.continue()));
    },
  };
}

/** The row of a request, whose id is shown in short. */
const rowOf = (page: Page, id: string) =>
  page.getByRole('row').filter({ hasText: `${id.slice(0, 10)}…${id.slice(-4)}` });

test('events appear as they happen, stand still when paused, and show one request alone', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.goto('/events?type=request.completed');
  await page.getByText('New ones appear by themselves.').waitFor();
  const first = await call('The first of the tail');
  await rowOf(page, first).waitFor();
  // What is being read as somebody pauses, and is answered later, is not shown either.
  const late = await holdBack(page, '**/api/events?*');
  await call('What makes the page read anew');
  await until(() => late.count() > 0);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('Paused: nothing moves.').waitFor();
  const second = await call('The second of the tail');
  // It is in the list of the API before the page is asked for it.
  const owner = process.env.SVC_CONSOLE_OWNER_KEY as string;
  await until(async () => {
    const found = await api<{ events: unknown[] }>(owner, 'GET', `/v1/events?request_id=${second}`);
    return found.events.length > 0;
  });
  await late.release();
  // Nor does it come when the window is looked at again.
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await page.waitForTimeout(1_000);
  expect(await rowOf(page, second).count()).toBe(0);
  await page.getByRole('button', { name: 'Follow' }).click();
  await rowOf(page, second).waitFor();
  await rowOf(page, first)
    .getByRole('button', { name: /^All of/ })
    .click();
  await page.getByRole('button', { name: 'All of this request' }).click();
  await page.waitForURL(`**request_id=${first}`);
  await rowOf(page, second).waitFor({ state: 'detached' });
  await rowOf(page, first).first().waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('what an event is about has its name, in the table, in the file and in all that it says', async () => {
  const org = await makeOrganization('Eventful', 1);
  const { name } = org.member;
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/events?type=key.issued');
  const row = page.getByRole('row').filter({ hasText: name }).first();
  await row.getByRole('cell', { name, exact: true }).waitFor();
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download CSV' }).click(),
  ]);
  const lines = readFileSync(await file.path(), 'utf8').split('\r\n');
  // With its byte order mark, by which spreadsheets know the alphabet.
  expect(lines[0]).toBe('\ufeffid,at,type,action,request_id,whose_id,whose_name,payload');
  expect(lines.some((line) => line.includes(`,${name},`))).toBe(true);
  await row.getByRole('button', { name: /^All of/ }).click();
  const facts = page.getByRole('table', { name: 'Who and what' });
  await facts.getByRole('row', { name: `user ${name}` }).waitFor();
  await facts.getByRole('row', { name: 'key calls' }).waitFor();
  await page.keyboard.press('Escape');
  await page.goto('/settings?tab=audit&action=key');
  await page.getByRole('cell', { name: 'key calls' }).first().waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('a gateway shows what it runs, and workers who polls; the ledger is proved by a click', async () => {
  const { page, context, complaints } = await operator();
  await page.goto('/gateways');
  await page.getByRole('cell', { name: 'in sync' }).first().waitFor();
  await page.getByRole('link', { name: 'Workers' }).click();
  await page.getByRole('table', { name: 'Queues' }).getByText('lifecycle').first().waitFor();
  await page.getByText('Nothing was given up').waitFor();
  await page.getByRole('button', { name: 'Audit the ledger now' }).click();
  await page.getByText('clean: everything adds up').waitFor();
  await page.getByText(/^Last run: /).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test("an operator's home says how each part of the platform stands, with the way to more", async () => {
  const { page, context, complaints } = await operator();
  await page.goto('/');
  const strip = page.getByRole('region', { name: 'Health of the platform' });
  const part = (name: string) =>
    strip.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) });
  await part('API').getByText('ready', { exact: true }).waitFor();
  await part('Gateways')
    .getByText(/^\d+ in sync/)
    .waitFor();
  await part('Temporal').getByText('up', { exact: true }).waitFor();
  await part('Queue lifecycle').getByText('polled', { exact: true }).waitFor();
  await part('Outbox').getByText('moving', { exact: true }).waitFor();
  await part('Payment provider A').waitFor();
  expect(await violations(page)).toEqual([]);
  await part('Payment provider A').getByRole('link').click();
  await page.waitForURL('**/payments?tab=providers');
  expect(complaints).toEqual([]);
  // Nobody else is shown it, and nothing is asked.
  await context.close();
  const owner = await visit(browser, { role: 'owner' });
  const asked: string[] = [];
  owner.page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await owner.page.goto('/');
  await owner.page.getByRole('heading', { name: 'Models that cost most' }).waitFor();
  expect(await owner.page.getByText('Health of the platform').count()).toBe(0);
  expect(asked.filter((one) => /readyz|gateways|workers/.test(one))).toEqual([]);
  await owner.context.close();
});

test('what cannot be read is unknown on the home, and never well; it is read again when asked', async () => {
  const { page, context } = await operator();
  const refuse = (status: number, code: string, message: string) => ({
    status,
    json: { type: 'error', error: { code, message, type: 'api_error', param: null } },
  });
  await page.route('**/readyz', (route) =>
    route.fulfill(refuse(503, 'unavailable', 'The API cannot be reached at present.')),
  );
  await page.route('**/api/gateways', (route) =>
    route.fulfill(refuse(500, 'internal_error', 'This is a fault of the service.')),
  );
  await page.route('**/api/admin/payments/config', (route) =>
    route.fulfill(refuse(403, 'permission_denied', 'It is for operators.')),
  );
  await page.goto('/');
  const strip = page.getByRole('region', { name: 'Health of the platform' });
  const part = (name: string) =>
    strip.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) });
  await part('API').getByText('away', { exact: true }).waitFor();
  await part('Gateways').getByText('unknown', { exact: true }).waitFor();
  await part('Gateways').getByText('This is a fault of the service.').waitFor();
  await part('Payment providers').getByText('forbidden', { exact: true }).waitFor();
  await part('Queue lifecycle').getByText('polled', { exact: true }).waitFor();
  await page.unrouteAll();
  await tryAgain(strip, part('API').getByText('ready', { exact: true }).waitFor());
  await part('Gateways')
    .getByText(/^\d+ in sync/)
    .waitFor();
  await strip.getByRole('button', { name: 'Try again' }).waitFor({ state: 'detached' });
  await context.close();
});

test('a part that was well is unknown once it cannot be read, and the way to read it again stays', async () => {
  const { page, context } = await operator();
  const fault = { code: 'internal_error', message: 'This is a fault of the service.' };
  const refused = { status: 500, json: { type: 'error', error: fault } };
  let is_held = false;
  let release = () => {};
  await page.route('**/api/admin/payments/config', async (route) => {
    if (is_held) await new Promise<void>((resolve) => (release = resolve));
    await route.fulfill(refused);
  });
  await page.goto('/');
  const strip = page.getByRole('region', { name: 'Health of the platform' });
  const part = (name: string) =>
    strip.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) });
  await part('Gateways')
    .getByText(/^\d+ in sync/)
    .waitFor();
  await part('Payment providers').getByText('unknown', { exact: true }).waitFor();
  await page.route('**/api/gateways', (route) => route.fulfill(refused));
  is_held = true;
  const again = strip.getByRole('button', { name: 'Try again' });
  await Promise.all([page.waitForRequest('**/api/admin/payments/config'), again.click()]);
  await part('Gateways').getByText('unknown', { exact: true }).waitFor();
  expect(await part('Gateways').getByText('in sync').count()).toBe(0);
  // While a part that was never read is asked anew, it stays what it was.
  expect(await part('Payment providers').getByText('unknown', { exact: true }).count()).toBe(1);
  expect(await page.evaluate("document.activeElement?.textContent ?? ''")).toBe('Try again');
  is_held = false;
  release();
  await page.unrouteAll({ behavior: 'wait' });
  await again.click();
  await part('Gateways')
    .getByText(/^\d+ in sync/)
    .waitFor();
  await again.waitFor({ state: 'detached' });
  await context.close();
});

test('a version is checked before it is made, rolled out, paused, resumed and aborted', async () => {
  const { keys } = demo();
  const { page, context, complaints } = await operator();
  await page.goto('/config');
  await page.getByRole('button', { name: 'New version' }).click();
  const form = page.getByRole('dialog');
  const field = form.getByRole('textbox', { name: 'Configuration' });
  await field.fill('{"providers": 1}');
  await form.getByRole('button', { name: 'Check it' }).click();
  await form
    .getByRole('alert')
    .getByText(/providers/)
    .waitFor();
  expect(await form.getByRole('button', { name: 'Begin a rollout' }).isDisabled()).toBe(true);
  await field.fill('providers: [');
  await form.getByText(/^Flow sequence/).waitFor();
  await field.fill(gatewayFile());
  const changes = form.getByText(/nothing before it|Where|changes nothing/).first();
  const begin = form.getByRole('button', { name: 'Begin a rollout' });
  // An answer that comes after the text was changed is of the text before.
  await overtake(page, '**/api/gateway-config', {
    press: () => form.getByRole('button', { name: 'Check it' }).click(),
    first: () => field.fill('{}'),
  });
  expect([await changes.count(), await begin.isDisabled()]).toEqual([0, true]);
  await field.fill(gatewayFile());
  await form.getByRole('button', { name: 'Check it' }).click();
  await changes.waitFor();
  await begin.click();
  await form.waitFor({ state: 'detached' });
  const rollouts = page.getByRole('table', { name: 'Rollouts' });
  await rollouts.getByRole('button', { name: 'Pause' }).click();
  await rollouts.getByText('paused', { exact: true }).first().waitFor();
  await rollouts.getByRole('button', { name: 'Resume' }).click();
  await rollouts.getByText('goes on', { exact: true }).first().waitFor();
  await rollouts.getByRole('button', { name: 'Abort' }).click();
  await form.getByRole('button', { name: 'Abort' }).click();
  await rollouts.getByText('aborted', { exact: true }).first().waitFor();
  await page
    .getByRole('table', { name: 'Versions' })
    .getByRole('button', { name: /^What changed in version/ })
    .first()
    .click();
  await form.getByRole('heading', { name: /^What version \d+ changed/ }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
  await api(keys.platform_admin, 'DELETE', '/v1/admin/gateway-config');
});

test('whoever is no operator is told so, and asks nothing', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  for (const path of ['/gateways', '/config', '/workers']) {
    await page.goto(path);
    await page.getByText('You may not see this').waitFor();
  }
  await context.close();
});
