import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { settled } from '../../support/console/look';
import {
  makeCall,
  makeOrganization,
  type TestOrganization,
} from '../../support/console/organization';
import { api, demo, picture, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Spenders', 5)]);
});
afterAll(() => browser.close());

interface Top {
  totals: { cost: number; requests: number };
}

const spent = () =>
  api<Top>(org.keys.billing_admin, 'GET', '/v1/spend/top?by=tag&tag=console-test');

test('spend is grouped, compared, narrowed by a click, and kept as a file of the same sum', async () => {
  await makeCall(org, 'What does this cost?', 'console-test,second');
  await until(async () => (await spent()).totals.requests > 0);
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  await page.getByRole('link', { name: 'Spend' }).click();
  // A click on a part of a bar narrows to its group.
  const model = demo().models[0] as string;
  await page.locator('.recharts-bar-rectangle path').last().click();
  await page.getByRole('button', { name: `Model: ${model}` }).click();
  await page.getByRole('combobox', { name: 'Group by' }).click();
  await page.getByRole('option', { name: 'Tag' }).click();
  await page.getByRole('button', { name: 'console-test' }).click();
  // One tag is left, and what comes next is by model; all of it stands in the address.
  await page.getByRole('button', { name: 'Tag: console-test' }).waitFor();
  expect(new URL(page.url()).searchParams.get('tag')).toBe('console-test');
  const ranking = page.getByRole('table', { name: 'Cost by model' });
  await ranking.getByRole('button', { name: model }).waitFor();
  await page.getByRole('switch', { name: 'Compare with the period before' }).check();
  await ranking.getByRole('columnheader', { name: 'Change' }).waitFor();
  await page.getByText('Table', { exact: true }).click();
  const twin = page.getByRole('table', { name: "The chart's figures" });
  await twin.getByRole('columnheader', { name: model }).waitFor();
  // A year that is typed digit by digit asks for no day of its beginning.
  const first = page.getByLabel('From');
  const day = await first.inputValue();
  await first.fill(`0002${day.slice(4)}`);
  expect(page.url()).not.toContain('0002');
  await first.blur();
  expect(await first.inputValue()).toBe(day);
  // The link gives the figures of the page.
  const link = page.getByRole('link', { name: 'Ranking as CSV' });
  const [file] = await Promise.all([page.waitForEvent('download'), link.click()]);
  const lines = (await textOf(await file.createReadStream())).trim().split('\r\n');
  expect(lines[0]).toBe(
    'model,currency,cost,requests,prompt_tokens,completion_tokens,cached_tokens',
  );
  const cost = lines.slice(1).reduce((sum, line) => sum + Number(line.split(',')[2]), 0);
  expect(cost).toBeCloseTo((await spent()).totals.cost, 9);
  await page.reload();
  await twin.waitFor();
  await page.getByRole('button', { name: 'Tag: console-test' }).click();
  await page.getByRole('button', { name: 'Tag: console-test' }).waitFor({ state: 'detached' });
  expect(complaints).toEqual([]);
  await context.close();
});

test('a chart and a file that leave tags out say so', async () => {
  await makeCall(org, 'Tagged', 'one-of-many');
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  // So many tags are more than a test makes: the API says of a few that they are not all.
  await page.addInitScript(`(() => {
    const real = window.fetch;
    window.fetch = async (...given) => {
      const answer = await real(...given);
      if (!/\\/api\\/spend\\?.*group_by=tag/.test(String(given[0]))) return answer;
      return new Response(JSON.stringify({ ...(await answer.json()), truncated: true }), answer);
    };
  })()`);
  await page.goto('/spend?by=tag');
  await page.getByText('There are more tags than fit').waitFor();
  const csv = { 'content-type': 'text/csv', 'content-disposition': 'filename="spend.csv"' };
  const is_cut = { 'x-svc-truncated': 'true' };
  await page.route('**/api/spend/top/csv*', (route) =>
    route.fulfill({ body: 'tag', headers: { ...csv, ...is_cut } }),
  );
  await page.getByRole('link', { name: 'Ranking as CSV' }).click();
  await page.getByText('spend.csv is not whole').waitFor();
  await page.getByText('It has the tags that cost most.').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

test('a member reads times and days in the zone in which the organization reports', async () => {
  // An organization of its own: figures of another zone go on until they are folded anew.
  const zoned = await makeOrganization('Zoned', 1);
  const at = `/v1/admin/organizations/${zoned.id}/wallet-settings`;
  await api(demo().keys.platform_admin, 'PUT', at, { time_zone: 'Asia/Kolkata' });
  const { page, context } = await visit(browser, { access_key: zoned.keys.member });
  await page.goto('/spend');
  await page.getByText('by days of Asia/Kolkata').waitFor();
  await context.close();
});

test('figures of a zone that this browser does not know are drawn as of UTC', async () => {
  await makeCall(org, 'In which zone is this?');
  const { page, context, complaints } = await visit(browser, {
    access_key: org.keys.billing_admin,
  });
  // A call of the test costs so little that its wallet lasts beyond the century.
  await page.addInitScript(`
    const ask = window.fetch;
    window.fetch = async (asked, ...more) => {
      const answer = await ask(asked, ...more);
      if (!answer.ok || !String(asked.url ?? asked).includes('/api/spend?')) return answer;
      const said = await answer.json();
      said.time_zone = 'Antarctica/Yet_Unknown';
      said.totals.cost = 1;
      return new Response(JSON.stringify(said), { headers: answer.headers });
    };
  `);
  for (const path of ['/', '/spend?interval=hour&period=7d', '/spend']) {
    await page.goto(path);
    const shown =
      path === '/' ? page.getByText('lasts until about') : page.locator('.recharts-bar');
    await shown.first().waitFor();
    expect(await page.getByText('This page broke').count()).toBe(0);
  }
  expect(complaints).toEqual([]);
  await context.close();
});

test('a member sees only their own calls, and an unknown call is none', async () => {
  const { page, context } = await visit(browser, { access_key: org.keys.member });
  await page.goto('/spend?by=user');
  await settled(page);
  const ranking = page.getByRole('table', { name: 'Cost by person' });
  await ranking.getByRole('button', { name: org.member.name }).waitFor();
  await page.goto('/requests/req_unknown');
  await page.getByText('That did not work').waitFor();
  await context.close();
});

describe.each(['light', 'dark'] as const)('in %s colours', (scheme) => {
  test('the story of a call names who, when and what, and its lines add up to its cost', async () => {
    const id = await makeCall(org, `Tell me a story, in ${scheme} colours.`);
    const key = org.keys.billing_admin;
    const story = () =>
      api<{ settlement: { actual_cost: number } | null; events: object[] }>(
        key,
        'GET',
        `/v1/requests/${id}`,
      );
    await until(async () => (await story()).events.length > 0);
    const cost = (await story()).settlement?.actual_cost ?? 0;
    expect(cost).toBeGreaterThan(0);
    const { page, context, complaints } = await visit(browser, { access_key: key, scheme });
    await page.goto(`/wallets/${org.wallet_id}`);
    await page.getByRole('link', { name: 'the call' }).first().click();
    await page.waitForURL('**/requests/*');
    await page.goto(`/requests/${id}`);
    await settled(page);
    await page.getByText('Money was held').waitFor();
    await page.getByText('the caller got 200').waitFor();
    const bill = page.getByRole('table', { name: 'Price lines' });
    const exact = cost.toFixed(9).replace(/0+$/, '');
    await bill
      .getByRole('row', { name: /All together/ })
      .getByText(exact, { exact: true })
      .waitFor();
    expect(await page.getByText('The lines add up to').count()).toBe(0);
    await page.getByRole('table', { name: 'Facts' }).getByText(org.member.name).waitFor();
    await picture(page, `request-${scheme}`);
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
    await context.close();
  });
});
