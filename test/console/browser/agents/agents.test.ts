import type { Browser } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { violations } from '../../../support/console/axe';
import { settled, tryAgain } from '../../../support/console/look';
import {
  makeCall,
  makeOrganization,
  type TestOrganization,
} from '../../../support/console/organization';
import { api, demo, picture, visit } from '../../../support/console/visitor';
import { until } from '../../../support/until';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Agencies', 5)]);
});
afterAll(() => browser.close());

interface Agent {
  id: string;
  name: string;
}
interface Cap {
  max_value: number;
  model_pattern: string;
}

const makeAgent = (name: string) =>
  api<Agent>(org.keys.owner, 'POST', `/v1/organizations/${org.id}/agents`, { name });

const cap = {
  constraint_type: 'responses',
  provider: 'openai',
  model_pattern: 'gpt-4o*',
  max_value: 5,
  interval: 'month',
  enforcement_mode: 'reject',
};
const makeCap = (agent_id: string, fields: object = {}) =>
  api(org.keys.owner, 'POST', `/v1/agents/${agent_id}/usage-constraints`, { ...cap, ...fields });

async function capsOf(agent_id: string): Promise<Cap[]> {
  const route = `/v1/agents/${agent_id}/usage-constraints`;
  const found = await api<{ usage_constraints: Cap[] }>(org.keys.owner, 'GET', route);
  return found.usage_constraints;
}

const makeKey = (name: string, agent_id: string) =>
  api<{ key: string }>(org.keys.owner, 'POST', '/v1/tokens', {
    name,
    token_type: 'gateway',
    agent_id,
  });

test('an agent is made, found, renamed, and archived with its keys', async () => {
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/agents');
  await page.getByText('No agents').waitFor();
  await page.getByRole('button', { name: 'New agent' }).click();
  const form = page.getByRole('dialog');
  const name = 'Scout <script>';
  await form.getByLabel('Name').fill(name);
  await form.getByRole('button', { name: 'Make the agent' }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByRole('row', { name }).waitFor();
  const other = await makeAgent('Another');
  await page.getByLabel('Name').fill('another');
  await page.waitForURL('**/agents?q=another');
  await page.getByRole('link', { name: 'Another' }).waitFor();
  expect(await page.getByRole('row', { name }).count()).toBe(0);

  await page.getByRole('row', { name: 'Another' }).getByRole('button', { name: 'Rename' }).click();
  await form.getByLabel('Name').fill('Another one');
  await form.getByRole('button', { name: 'Rename' }).click();
  await form.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Another one' }).click();
  await page.getByRole('heading', { name: 'Another one' }).waitFor();

  await makeKey('of another', other.id);
  await page.getByRole('button', { name: 'Archive' }).click();
  await form.getByText('1 key will be revoked at once').waitFor();
  await form.getByRole('list', { name: 'Keys to be revoked' }).getByText('of another').waitFor();
  await form.getByRole('button', { name: 'Archive' }).click();
  await page.getByText('It is archived').waitFor();
  expect(await page.getByRole('button', { name: 'Rename' }).count()).toBe(0);
  const ended = await api<{ status: string }>(org.keys.owner, 'GET', '/v1/tokens/of%20another');
  expect(ended.status).toBe('revoked');

  await page.goto('/agents?status=archived');
  await page.getByRole('link', { name: 'Another one' }).waitFor();
  expect(await page.getByRole('row', { name }).count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a cap is made, followed while calls use it, changed and deleted', async () => {
  const agent = await makeAgent('Capped');
  const { key } = await makeKey('calls of the capped', agent.id);
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto(`/agents/${agent.id}`);
  await page.getByText('No caps').waitFor();
  await page.getByText('0 of at most 100.').waitFor();
  await page.getByRole('button', { name: 'New cap' }).click();
  const form = page.getByRole('dialog');
  await form.getByRole('combobox', { name: 'Limit' }).click();
  await page.getByRole('option', { name: 'answers' }).click();
  await form.getByRole('combobox', { name: 'Provider' }).fill('open');
  await page.getByRole('option', { name: 'openai', exact: true }).click();
  const models = form.getByRole('textbox', { name: 'Models' });
  await models.fill('gpt-*-mini');
  await form.getByText('It may hold one star, at its end.').waitFor();
  expect(await form.getByRole('button', { name: 'Make the cap' }).isDisabled()).toBe(true);
  await models.fill('*');
  const most = form.getByRole('textbox', { name: 'At most, in answers' });
  await most.fill('1.5');
  expect(await form.getByRole('button', { name: 'Make the cap' }).isDisabled()).toBe(true);
  await most.fill('5');
  await form.getByRole('combobox', { name: 'Per' }).click();
  await page.getByRole('option', { name: 'month (UTC)' }).click();
  await form.getByRole('button', { name: 'Make the cap' }).click();
  await form.waitFor({ state: 'detached' });
  const row = page.getByRole('row', { name: 'every model of openai' });
  await row.getByText('0 of 5 answers a month').waitFor();
  await row.getByText('is refused').waitFor();
  expect(await capsOf(agent.id)).toMatchObject([{ ...cap, model_pattern: '*' }]);
  // The page hears of the call by itself.
  await makeCall({ ...org, keys: { ...org.keys, gateway: key } }, 'Count me');
  await row.getByText('1 of 5 answers a month').waitFor();

  await row.getByRole('button', { name: 'Change the cap' }).click();
  await most.fill('7');
  await form.getByRole('combobox', { name: 'Calls beyond it' }).click();
  await page.getByRole('option', { name: 'passes with a warning' }).click();
  await form.getByRole('button', { name: 'Change the cap' }).click();
  await row.getByText('1 of 7 answers a month').waitFor();
  expect(await capsOf(agent.id)).toMatchObject([{ max_value: 7, enforcement_mode: 'warn' }]);
  await form.waitFor({ state: 'detached' });

  await row.getByRole('button', { name: 'Delete the cap' }).click();
  await form.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('No caps').waitFor();
  expect(await capsOf(agent.id)).toEqual([]);
  // Its spend is a page away, narrowed to it.
  await form.waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Its spend' }).click();
  await page.waitForURL(new RegExp(`/spend\\?.*agent_id=${agent.id}`));
  await page.getByRole('button', { name: 'Agent: Capped, take this filter away' }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('an amount of money is capped to the nano, and a hundred caps are the most', async () => {
  const agent = await makeAgent('Full');
  for (let n = 0; n < 99; n += 1) await makeCap(agent.id, { model_pattern: `model-${n}` });
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto(`/agents/${agent.id}`);
  await page.getByText('99 of at most 100.').waitFor();
  await page.getByRole('button', { name: 'New cap' }).click();
  const form = page.getByRole('dialog');
  await until(async () => {
    await form.getByRole('combobox', { name: 'Provider' }).fill('open');
    await page.getByRole('option', { name: 'openai', exact: true }).click();
    await form.getByRole('textbox', { name: 'At most, in USD' }).fill('1.000000001');
    return form.getByRole('button', { name: 'Make the cap' }).isEnabled();
  });
  await form.getByRole('button', { name: 'Make the cap' }).click();
  await page.getByText('100 of at most 100.').waitFor();
  expect((await capsOf(agent.id)).at(-1)).toMatchObject({ max_value: 1.000_000_001 });
  expect(await page.getByRole('button', { name: 'New cap' }).isDisabled()).toBe(true);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a key is made for an agent, and its keys are found among all', async () => {
  const agent = await makeAgent('Keeper');
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  await page.goto(`/agents/${agent.id}?tab=keys`);
  await page.getByText('No keys').waitFor();
  await page.getByRole('button', { name: 'New key' }).click();
  const form = page.getByRole('dialog', { name: 'A new key of Keeper' });
  await form.getByRole('textbox', { name: 'Name' }).fill('kept');
  await form.getByLabel('Budget').fill('2.5');
  await form.getByRole('button', { name: 'Create key' }).click();
  await page.getByTestId('key').waitFor();
  await page.getByRole('button', { name: 'I have copied it' }).click();
  const keys = page.getByRole('table', { name: 'Keys of the agent' });
  await keys.getByRole('row', { name: 'kept' }).getByText('$0.00 of $2.50').waitFor();
  const made = await api(org.keys.owner, 'GET', '/v1/tokens/kept');
  expect(made).toMatchObject({ agent_id: agent.id, max_budget: 2.5, status: 'active' });

  await page.getByRole('link', { name: 'Change its keys' }).click();
  await page.waitForURL(`**/keys?agent_id=${agent.id}`);
  await page.getByRole('row', { name: 'kept' }).getByText('Keeper').waitFor();
  expect(await page.getByRole('row', { name: /^calls\b/ }).count()).toBe(0);
  await page.getByRole('button', { name: 'Agent: Keeper, take this filter away' }).click();
  await page.waitForURL('**/keys');
  await page
    .getByRole('row', { name: /^calls\b/ })
    .first()
    .waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('who may only look changes nothing, and who may not look is told so', async () => {
  const agent = await makeAgent('Looked at');
  await makeCap(agent.id);
  const admin = demo().keys.platform_admin;
  const people = `/v1/organizations/${org.id}/members`;
  const person = { name: 'Looks at agents', role: 'admin' };
  const { user_id } = await api(admin, 'POST', people, person);
  const reader = await api<{ key: string }>(admin, 'POST', '/v1/tokens', {
    org_id: org.id,
    name: 'looks at agents',
    token_type: 'access',
    scopes: ['agents:read'],
    user_id,
  });
  const looking = await visit(browser, { access_key: reader.key });
  await looking.page.goto('/agents?q=looked');
  await looking.page.getByRole('link', { name: 'Looked at' }).waitFor();
  const buttons = looking.page.getByRole('button', { name: /^(New|Rename|Archive|Change|Delete)/ });
  expect(await buttons.count()).toBe(0);
  await looking.page.getByRole('link', { name: 'Looked at' }).click();
  await looking.page.getByText('0 of 5 answers a month').waitFor();
  expect(await buttons.count()).toBe(0);
  expect(await looking.page.getByRole('tab', { name: 'Keys and budgets' }).count()).toBe(0);
  expect(await looking.page.getByRole('link', { name: 'Its spend' }).count()).toBe(0);
  expect(looking.complaints).toEqual([]);
  await looking.context.close();

  const { page, context } = await visit(browser, { access_key: org.keys.member });
  await settled(page);
  expect(await page.getByRole('link', { name: 'Agents' }).count()).toBe(0);
  for (const path of ['/agents', `/agents/${agent.id}`]) {
    await page.goto(path);
    await page.getByText('It needs the right agents:read.').waitFor();
  }
  await context.close();
});

test('a list that cannot be read says so and is read again; pages follow one another', async () => {
  for (let n = 0; n < 60; n += 1) await makeAgent(`Clerk ${String(n).padStart(2, '0')}`);
  const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
  const list = /\/api\/organizations\/[^/]+\/agents\?/;
  await page.route(list, (one) =>
    one.fulfill({
      status: 500,
      json: { error: { code: 'internal_error', message: 'It broke.' }, request_id: 'req_broken' },
    }),
  );
  await page.goto('/agents?q=clerk');
  await page.getByText('It broke.').waitFor();
  await page.unroute(list);
  await tryAgain(page, page.getByRole('link', { name: 'Clerk 00' }).waitFor());
  expect(await page.getByRole('link', { name: 'Clerk 50' }).count()).toBe(0);
  await page.getByRole('button', { name: 'Next page' }).click();
  await page.getByRole('link', { name: 'Clerk 50' }).waitFor();
  await page.waitForURL(/cursor=/);
  // Who turns back is shown the page before.
  await page.goBack();
  await page.getByRole('link', { name: 'Clerk 00' }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test.each([
  ['light', 1_200],
  ['dark', 1_200],
  ['light', 320],
] as const)(
  'in %s colours at %s px an agent has what axe asks for, and fits',
  async (scheme, width) => {
    const agent = await makeAgent(`Seen in ${scheme} at ${width}`);
    await makeCap(agent.id);
    await makeCap(agent.id, { constraint_type: 'cost', max_value: 0, enforcement_mode: 'warn' });
    await makeKey(`seen in ${scheme} at ${width}`, agent.id);
    const access_key = org.keys.owner;
    const { page, context, complaints } = await visit(browser, { access_key, scheme, width });
    for (const tab of ['caps', 'keys']) {
      await page.goto(`/agents/${agent.id}?tab=${tab}`);
      await settled(page);
      await page.getByRole('table').waitFor();
      await picture(page, `agent-${tab}-${scheme}-${width}`);
      expect([tab, await violations(page)]).toEqual([tab, []]);
      const wide = await page.evaluate<number>('document.documentElement.scrollWidth');
      expect([tab, wide]).toEqual([tab, width]);
    }
    await page.goto(`/agents/${agent.id}`);
    await page.getByRole('button', { name: 'New cap' }).click();
    await page.getByRole('dialog').waitFor();
    await picture(page, `agent-new-cap-${scheme}-${width}`);
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await context.close();
  },
);
