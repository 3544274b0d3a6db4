import type { Browser, Request } from 'playwright-core';
import { rolePermissions } from '../../../domain/people/roles';
import { openBrowser } from '../../support/browser';
import { settled } from '../../support/console/look';
import {
  makeCall,
  makeOrganization,
  makeTopUp,
  type TestOrganization,
} from '../../support/console/organization';
import { api, demo, visit } from '../../support/console/visitor';
import { until } from '../../support/until';
import { screens } from '../screens';

// A refusal for want of a right is an event for whoever watches over the organization: the console
// asks only what the person may.

let browser: Browser;
let org: TestOrganization;
const keys: Record<string, string> = {};
let details: string[];

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Rights', 5)]);
  const admin = demo().keys.platform_admin;
  const at = `/v1/organizations/${org.id}`;
  const person = async (name: string, role: 'admin' | 'member') => {
    const body = { name, role };
    const { user_id } = await api<{ user_id: string }>(admin, 'POST', `${at}/members`, body);
    const token = { org_id: org.id, name, token_type: 'access', user_id };
    const scopes = rolePermissions[role];
    const { key } = await api<{ key: string }>(admin, 'POST', '/v1/tokens', { ...token, scopes });
    keys[name] = key;
    return user_id;
  };
  await person('an admin', 'admin');
  const lead = await person('the admin of a team', 'member');
  const team = await api<{ id: string }>(admin, 'POST', `${at}/teams`, { name: 'Led' });
  await api(admin, 'POST', `${at}/teams/${team.id}/members`, { user_id: lead, role: 'admin' });
  await api(org.keys.owner, 'POST', '/v1/wallets/allocate', { team_id: team.id, amount: 1 });
  keys['who pays'] = org.keys.billing_admin;
  const call = await makeCall(org, 'Whose right is it');
  const payment = await makeTopUp(org, 5);
  const { wallets } = await api<{ wallets: { wallet_id: string }[] }>(
    ...([org.keys.owner, 'GET', '/v1/wallets'] as const),
  );
  details = [`/requests/${call}`, `/payments/${payment}`];
  details.push(...wallets.map(({ wallet_id }) => `/wallets/${wallet_id}`));
});
afterAll(() => browser.close());

test.each(['an admin', 'who pays', 'the admin of a team'])(
  '%s goes to every screen, and nothing is asked that they may not',
  async (who) => {
    const { page, context } = await visit(browser, { access_key: keys[who] as string });
    const refused: string[] = [];
    page.on('response', (answer) => {
      // The chat says so by itself, and asks the API nothing.
      const is_of_chat = answer.url().includes('/api/chat/models');
      if (answer.status() === 403 && !is_of_chat)
        refused.push(`${answer.request().method()} ${answer.url()}`);
    });
    const asking = new Set<Request>();
    const is_asked = (one: Request) => /\/api\/(?!events\/stream)/.test(one.url());
    page.on('request', (one) => is_asked(one) && asking.add(one));
    page.on('requestfinished', (one) => asking.delete(one));
    page.on('requestfailed', (one) => asking.delete(one));
    for (const path of [...screens, ...details, '/settings?tab=budgets', '/people?tab=teams']) {
      await page.goto(path);
      await settled(page);
      await until(async () => asking.size === 0);
    }
    expect([...new Set(refused)]).toEqual([]);
    await context.close();
  },
);

test('nor does the server of the console ask such a thing by itself', async () => {
  const marker = await fetch(`${demo().api_url}/v1/audit-log`, {
    headers: { authorization: `Bearer ${org.keys.member}` },
  });
  expect(marker.status).toBe(403);
  const read = async () => {
    const route = '/v1/events?type=request.refused';
    const { events } = await api<{ events: { payload: { route: string } }[] }>(
      ...([org.keys.owner, 'GET', route] as const),
    );
    return events.map(({ payload }) => payload.route);
  };
  await until(async () => (await read()).includes('get /v1/audit-log'));
  expect(await read()).toEqual(['get /v1/audit-log']);
});
