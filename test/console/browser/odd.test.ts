import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { call, drain, refill } from '../../support/console/held-calls';
import { tryAgain } from '../../support/console/look';
import { makeOrganization } from '../../support/console/organization';
import { api, demo, picture, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const names = [
  'x'.repeat(200),
  '👩‍👩‍👧‍👦🏳️‍🌈 '.repeat(12),
  'فريق البحث \u202e والتطوير',
  '<script>document.title = "taken"</script><img src=x onerror="document.title = \'taken\'">',
];

test.each([320, 1_200])(
  'names that are long, foreign or hostile are text at %s px',
  async (width) => {
    const key = process.env.SVC_CONSOLE_OWNER_KEY as string;
    const teams = `/v1/organizations/${demo().organization_id}/teams`;
    const made: string[] = [];
    for (const name of names) {
      const { id } = await api<{ id: string }>(key, 'POST', teams, { name });
      made.push(id);
      await api(key, 'POST', '/v1/wallets/allocate', { team_id: id, amount: 0.01 });
    }
    const { page, context, complaints } = await visit(browser, { role: 'owner', width });
    await page.goto('/wallets');
    for (const name of names) await page.getByText(name.trim()).first().waitFor();
    const fits = async (name: string) => {
      await picture(page, `${name}-odd-names-${width}`);
      const wide = await page.evaluate<number>('document.documentElement.scrollWidth');
      expect([name, wide > width]).toEqual([name, false]);
      expect([name, await violations(page)]).toEqual([name, []]);
    };
    await fits('wallets');
    await page
      .getByRole('link', { name: names[0] as string })
      .first()
      .click();
    await page.getByRole('heading', { name: /^Wallet of/ }).waitFor();
    await fits('wallet');
    expect(await page.title()).not.toContain('taken');
    expect(complaints).toEqual([]);
    await context.close();
    for (const id of made) {
      await api(key, 'POST', '/v1/wallets/reclaim', { team_id: id, amount: 0.01 });
      await api(key, 'DELETE', `${teams}/${id}`);
    }
  },
);

/** Presses Tab until a button or link of this name has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let n = 0; n < 40; n += 1) {
    const here = await page.evaluate<string>("document.activeElement?.textContent ?? ''");
    if (here.trim() === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not lead to ${name}.`);
}

test('the keyboard is where it was after a dialog closes, however the dialog came', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const form = page.getByRole('dialog');
  const focused = (name: string) =>
    until(async () => {
      const here = 'document.activeElement?.getAttribute("aria-label")';
      const words = 'document.activeElement?.textContent ?? ""';
      return (await page.evaluate<string>(`${here} ?? ${words}`)) === name;
    });
  /** The dialog has the focus; then it goes, and the focus back to the button. */
  const leave = async (name: string, how: () => Promise<void>) => {
    await until(() =>
      page.evaluate<boolean>('document.activeElement?.closest("[role=dialog]") !== null'),
    );
    await how();
    await form.waitFor({ state: 'detached' });
    await focused(name);
  };
  const pressEscape = () => page.keyboard.press('Escape');
  await page.goto('/wallets');
  // It is mounted as it opens.
  await page.getByRole('button', { name: 'Credit by hand' }).press('Enter');
  await leave('Credit by hand', pressEscape);
  await page.goto('/people');
  const change = 'Change Mo Member';
  const byMenu = async (what: string) => {
    await page.getByRole('button', { name: change }).press('Enter');
    await page.getByRole('menuitem', { name: what }).press('Enter');
  };
  await byMenu('Change the role');
  await leave(change, pressEscape);
  // The second dialog takes the place of the first.
  await byMenu('Invite to sign in');
  await form.getByRole('button', { name: 'Create invitation' }).press('Enter');
  await form.getByTestId('invitation').waitFor();
  await leave(change, () => form.getByRole('button', { name: 'I have copied it' }).press('Enter'));
  await context.close();
});

describe('a waiting call is approved', () => {
  beforeEach(drain);
  afterEach(refill);

  test('by the keyboard alone', async () => {
    const { page, context } = await visit(browser, { role: 'billing_admin' });
    const held = call();
    await page.goto('/tickets');
    await page.getByText('a call is waiting now').waitFor();
    await tabTo(page, 'Approve');
    await page.keyboard.press('Enter');
    const amount = page.getByLabel('Amount in USD');
    await amount.waitFor();
    // The dialog has the focus, and Enter in a field sends it.
    await amount.press('Enter');
    expect((await held).status).toBe(200);
    await page.getByText('No open tickets').waitFor();
    await context.close();
  });

  test('by a browser whose clock is wrong and that may store nothing', async () => {
    const { page, context, complaints } = await visit(browser, { role: 'billing_admin' });
    await context.addInitScript(`
      const { now } = Date;
      Date.now = () => now() + 7_200_000;
      for (const name of ['localStorage', 'sessionStorage'])
        Object.defineProperty(window, name, {
          get: () => { throw new DOMException('The operation is insecure.', 'SecurityError'); },
        });
    `);
    const held = call();
    await page.goto('/tickets');
    await page.getByText('a call is waiting now').waitFor();
    // By its own clock, which is two hours ahead, 22 hours would be left.
    await page.getByText(/ends (tomorrow|in 24 hr|in 23 hr)/).waitFor();
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByLabel('Amount in USD').press('Enter');
    expect((await held).status).toBe(200);
    expect(complaints).toEqual([]);
    await context.close();
  });
});

test.each([
  ['/workers', 'Messages', '/api/outbox', 'messages', { workflow: 'w', workflow_id: 'w_1' }],
  ['/config', 'Rollouts', '/api/config-rollouts', 'rollouts', { group: 'g', stages: [] }],
])('on %s the list of %s goes on behind its first page', async (...given) => {
  const [path, label, route, items, item] = given;
  const { page, context } = await visit(browser, { role: 'platform_admin' });
  const at = '2026-11-30T17:00:00.000Z';
  const none = {
    signal: null,
    last_error: null,
    parked_at: null,
    reason: null,
    from_version: null,
  };
  const row = { ...item, ...none, created_at: at, ended_at: at, status: 'completed', stage: 0 };
  await page.route(
    (url) => url.pathname === route,
    (asked) => {
      const number = Number(new URL(asked.request().url()).searchParams.get('page'));
      const one = { ...row, id: `id_${number}`, version: number, attempts: number };
      return asked.fulfill({ json: { [items]: [one], has_more: number === 1, total: 2 } });
    },
  );
  await page.goto(path);
  const part = page.getByRole('table', { name: label, exact: true });
  await part.waitFor();
  const second = page.waitForRequest((one) => {
    const url = new URL(one.url());
    return url.pathname === route && url.searchParams.get('page') === '2';
  });
  await page.getByRole('button', { name: 'Next page' }).first().click();
  expect(new URL((await second).url()).searchParams.get('as_of')).not.toBeNull();
  await context.close();
});

test('a ticket names the key and the agent that ask', async () => {
  const org = await makeOrganization('Askers', 0.000_001);
  const { gateway_url, models } = demo();
  const asked = await fetch(`${gateway_url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${org.keys.gateway}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: models[0], messages: [{ role: 'user', content: 'Hello' }] }),
  });
  expect(asked.status).toBe(402);
  const path = '/v1/cost-tickets?status=open';
  const { tickets } = await api<{ tickets: { id: string }[] }>(org.keys.owner, 'GET', path);
  const { page, context } = await visit(browser, { access_key: org.keys.owner });
  await page.goto(`/tickets/${tickets[0]?.id}`);
  const facts = page.getByRole('table', { name: 'The ticket' });
  await facts.getByRole('row', { name: 'Key calls' }).waitFor();
  await facts.getByRole('row', { name: 'Agent none' }).waitFor();
  await context.close();
});

test('an event stream that says nothing for long is begun anew', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const begun: string[] = [];
  await page.clock.install();
  await page.route('**/api/events/stream', async (route) => {
    begun.push(route.request().url());
    // Of the first nothing is ever heard.
    if (begun.length > 1) await route.continue();
  });
  await page.goto('/wallets');
  await until(() => begun.length === 1);
  await until(async () => {
    await page.clock.fastForward(1_000);
    return begun.length > 1;
  });
  await context.close();
});

test('what cannot be read anew stays, under a line that says since when, until it can', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.clock.install();
  await page.goto('/wallets');
  const tree = page.getByRole('table', { name: 'Wallets' });
  await tree.getByRole('row').nth(1).waitFor();
  const line = page.getByText(/^Not up to date since /);
  expect(await line.count()).toBe(0);
  await page.route('**/api/wallets?**', (route) => route.abort());
  await until(async () => {
    await page.clock.fastForward(1_000);
    return (await line.count()) === 1;
  });
  expect(await tree.getByRole('row').count()).toBeGreaterThan(1);
  await page.unroute('**/api/wallets?**');
  await tryAgain(page, line.waitFor({ state: 'detached' }));
  await context.close();
});

test.each([
  ['**/api/wallets/balance**', 'What pays for your calls'],
  ['**/api/spend/top?**', 'Models that cost most'],
])('what the home page cannot read from %s is read again by a press', async (address, shown) => {
  const { page, context } = await visit(browser, { role: 'owner' });
  const broken = { code: 'internal_error', message: 'It broke.' };
  await page.route(address, (route) => route.fulfill({ status: 500, json: { error: broken } }));
  await page.goto('/');
  const failure = page.getByRole('alert').filter({ hasText: 'It broke.' });
  await failure.first().waitFor();
  await page.unroute(address);
  await tryAgain(failure, failure.waitFor({ state: 'detached' }));
  await page.getByRole('heading', { name: shown }).waitFor();
  await context.close();
});

test('a zone that this browser does not know breaks no page: times are of UTC, which is said', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.addInitScript(`
    const ask = window.fetch;
    window.fetch = async (asked, ...more) => {
      const answer = await ask(asked, ...more);
      if (!answer.ok || !String(asked.url ?? asked).endsWith('/api/me')) return answer;
      const me = await answer.json();
      for (const one of me.memberships) one.time_zone = 'Antarctica/Yet_Unknown';
      return new Response(JSON.stringify(me), { headers: answer.headers });
    };
  `);
  for (const [path, heading] of [
    ['/', 'Home'],
    ['/spend', 'Spend'],
    ['/keys', 'Keys'],
  ] as const) {
    await page.goto(path);
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
    await page.getByText(/does not know the zone Antarctica\/Yet_Unknown/).waitFor();
    expect(await page.getByText('This page broke').count()).toBe(0);
  }
  expect(complaints).toEqual([]);
  await context.close();
});
