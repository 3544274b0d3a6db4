import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { makeOrganization, type TestOrganization } from '../../support/console/organization';
import { api, demo, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Rotators', 5)]);
});
afterAll(() => browser.close());

const statusOf = async (key: string) => {
  const headers = { authorization: `Bearer ${key}` };
  return (await fetch(`${demo().api_url}/v1/wallets/balance`, { headers })).status;
};

test.each([
  ['of a program', false],
  ['of a person', true],
])(
  'an access key %s is given another value, and the old one ends at once',
  async (_, of_person) => {
    const name = of_person ? 'access of a person' : 'access of a program';
    const body = { name, token_type: 'access', scopes: [] };
    const { key: old } = await api<{ key: string }>(org.keys.owner, 'POST', '/v1/tokens', {
      ...body,
      ...(of_person ? { user_id: org.member.user_id } : {}),
    });
    const { page, context, complaints } = await visit(browser, { access_key: org.keys.owner });
    await page.goto('/keys?type=access');
    await page.getByRole('row', { name }).getByRole('button', { name: 'Rotate' }).click();
    await page.getByRole('combobox', { name: 'The old value ends' }).click();
    await page.getByRole('option', { name: 'at once' }).click();
    await page.getByRole('button', { name: 'Draw a new value' }).click();
    const fresh = (await page.getByTestId('key').textContent()) ?? '';
    expect(fresh).toMatch(/^svc_ak_/);
    // What calls models is said of keys for models alone.
    expect(await page.getByRole('tab', { name: 'Claude Code' }).count()).toBe(0);
    await page.getByRole('button', { name: 'I have copied it' }).click();
    expect(await page.content()).not.toContain(fresh);
    expect(await statusOf(fresh)).toBe(200);
    await until(async () => (await statusOf(old)) === 401);
    expect(complaints).toEqual([]);
    await context.close();
  },
);
