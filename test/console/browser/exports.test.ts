import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { settled } from '../../support/console/look';
import {
  makeCall,
  makeOrganization,
  type TestOrganization,
} from '../../support/console/organization';
import { api, picture, visit } from '../../support/console/visitor';
import { until } from '../../support/until';

let browser: Browser;
let org: TestOrganization;

beforeAll(async () => {
  [browser, org] = await Promise.all([openBrowser(), makeOrganization('Exporters', 5)]);
  await makeCall(org, 'Something for the files.');
  // A day that is not over is written up to a moment ago: to two seconds before now.
  const made = Date.now();
  await until(() => Date.now() - made > 2_500);
});
afterAll(() => browser.close());

async function bytesOf(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}

const today = () => new Date().toISOString().slice(0, 10);

describe.each(['light', 'dark'] as const)('in %s colours', (scheme) => {
  test('an export is made, followed to its end and downloaded, byte for byte', async () => {
    const key = org.keys.billing_admin;
    const { page, context, complaints } = await visit(browser, { access_key: key, scheme });
    await page.goto('/exports?kinds=statement');
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('From').fill(today());
    await dialog.getByLabel('To', { exact: true }).fill(today());
    await dialog.getByLabel('Ledger entries').check();
    // What needs another right cannot be chosen.
    expect(await dialog.getByLabel('Audit log').isDisabled()).toBe(true);
    expect(await violations(page)).toEqual([]);
    await dialog.getByRole('button', { name: 'Start export' }).click();
    await page.waitForURL('**/exports/exp_*');
    await page.getByRole('heading', { name: 'Export of' }).waitFor();
    await page.getByText('ready', { exact: true }).waitFor();
    await settled(page);
    const link = page.getByRole('link', { name: 'Closing statement, download' });
    const [file] = await Promise.all([page.waitForEvent('download'), link.click()]);
    const bytes = await bytesOf(await file.createReadStream());
    const id = new URL(page.url()).pathname.split('/').at(-1);
    const { files } = await api<{ files: { kind: string; sha256: string }[] }>(
      key,
      'GET',
      `/v1/exports/${id}`,
    );
    const said = files.find(({ kind }) => kind === 'statement')?.sha256;
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(said);
    expect(gunzipSync(bytes).toString()).toContain(org.wallet_id);
    await picture(page, `export-${scheme}`);
    expect(await violations(page)).toEqual([]);
    await page.getByRole('link', { name: 'Exports' }).click();
    await page
      .getByRole('row', { name: /Closing statement/ })
      .first()
      .getByText('ready')
      .waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});

test('the days of a kind are kept as one file for a spreadsheet', async () => {
  const key = org.keys.billing_admin;
  const begun = Date.now() - (Date.now() % 86_400_000);
  const { id } = await api<{ id: string }>(key, 'POST', '/v1/exports', {
    from: new Date(begun),
    to: new Date(Date.now() - 2_000),
    kinds: ['ledger'],
    format: 'csv',
  });
  const { page, context, complaints } = await visit(browser, { access_key: key });
  // A second day, which has the same rows: this organization is of today.
  await page.route(`**/api/exports/${id}`, async (route) => {
    const one = await api<{ files: { kind: string }[] }>(key, 'GET', `/v1/exports/${id}`);
    const again = one.files.filter(({ kind }) => kind === 'ledger');
    await route.fulfill({ json: { ...one, files: [...one.files, ...again] } });
  });
  await page.goto(`/exports/${id}`);
  await page.getByText('ready', { exact: true }).waitFor();
  const button = page.getByRole('button', { name: 'Ledger entries: one CSV' });
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
  expect(file.suggestedFilename()).toMatch(/^ledger-[\d-]+\.csv$/);
  const lines = (await bytesOf(await file.createReadStream())).toString().trimEnd().split('\r\n');
  const [titles, ...rows] = lines;
  expect(titles).toMatch(/^\W?\w+,/);
  expect(rows.filter((line) => line === titles)).toEqual([]);
  expect(rows.slice(rows.length / 2)).toEqual(rows.slice(0, rows.length / 2));
  expect(rows.length).toBeGreaterThan(1);
  // One day is one file as well; what no page can join is said.
  await page.unroute(`**/api/exports/${id}`);
  await page.reload();
  const [single] = await Promise.all([page.waitForEvent('download'), button.click()]);
  const alone = (await bytesOf(await single.createReadStream())).toString().trimEnd();
  expect(alone.split('\r\n')).toEqual([titles, ...rows.slice(rows.length / 2)]);
  await page.route(`**/api/exports/${id}`, async (route) => {
    const one = await api<{ files: object[] }>(key, 'GET', `/v1/exports/${id}`);
    const files = one.files.map((file) => ({ ...file, bytes: 60_000_000 }));
    await route.fulfill({ json: { ...one, files } });
  });
  await page.reload();
  await page.getByText('are too much for one file here: Ledger entries.').waitFor();
  expect(await button.count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test('the files of an export are deleted before their time, which makes room', async () => {
  const key = org.keys.billing_admin;
  const day_ms = 86_400_000;
  const midnight = Date.now() - (Date.now() % day_ms);
  const period = { from: new Date(midnight - day_ms), to: new Date(midnight) };
  const { id } = await api<{ id: string }>(key, 'POST', '/v1/exports', {
    ...period,
    kinds: ['payments'],
  });
  const { page, context, complaints } = await visit(browser, { access_key: key });
  await page.goto(`/exports/${id}`);
  await page.getByText('ready', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Delete its files' }).click();
  const dialog = page.getByRole('dialog', { name: 'Delete the files of this export' });
  await dialog.getByText('Nobody can download them any more.').waitFor();
  expect(await violations(page)).toEqual([]);
  await dialog.getByRole('button', { name: 'Delete them' }).click();
  await page.getByText('expired', { exact: true }).waitFor();
  await page.getByText('Its files were deleted').waitFor();
  expect(await page.getByRole('button', { name: 'Delete its files' }).count()).toBe(0);
  expect(await page.getByRole('link', { name: /download/ }).count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a schedule that waits for room says what to do', async () => {
  const { page, context } = await visit(browser, { access_key: org.keys.owner });
  const schedule = {
    ...{ id: 'exs_1', kinds: ['ledger'], every: 'day', time_zone: 'UTC', ended_at: null },
    ...{ next_at: new Date().toISOString(), last_export_id: null, last_status: null },
    ...{ created_by: 'owner', ended_reason: null, waiting_since: new Date().toISOString() },
    waiting_reason:
      'The files of 50 exports are kept here, and no more may. The oldest are deleted on 2026-12-03T00:00:00.000Z, or by DELETE /v1/exports/{id}; a bucket of your own has no such bound.',
  };
  await page.route('**/api/export-schedules?*', (route) =>
    route.fulfill({ json: { schedules: [schedule], next: null, has_more: false } }),
  );
  await page.goto('/exports?tab=schedules');
  const row = page.getByRole('row', { name: /each day of UTC/ });
  await row.getByText('waits', { exact: true }).waitFor();
  await row.getByText('a bucket of your own has no such bound.').waitFor();
  await row.getByText('Delete the files of an older export to make room.').waitFor();
  expect(await row.getByText('/v1/').count()).toBe(0);
  await context.close();
});

test('a file that is refused in a tab of its own says why, and leads back', async () => {
  const { page, context } = await visit(browser, { access_key: org.keys.billing_admin });
  await page.goto('/exports');
  const open = async () => {
    const [tab] = await Promise.all([
      context.waitForEvent('page'),
      page.evaluate("void window.open('/api/exports/exp_none/files/1')"),
    ]);
    return tab;
  };
  const tab = await open();
  await tab.getByRole('heading', { name: 'This file is not here' }).waitFor();
  expect(await violations(tab)).toEqual([]);
  await tab.getByRole('link', { name: 'Back to the console' }).click();
  await tab.waitForURL('**/exports/exp_none');
  await context.clearCookies();
  const out = await open();
  await out.getByRole('heading', { name: 'You are signed out' }).waitFor();
  await out.getByRole('link', { name: 'Back to the console' }).click();
  await out.waitForURL((url) => url.pathname === '/login');
  await context.close();
});

test('a schedule is made and ended', async () => {
  const { page, context } = await visit(browser, { access_key: org.keys.owner });
  await page.goto('/exports?tab=schedules');
  await page.getByText('No schedules').waitFor();
  await page.getByRole('button', { name: 'New schedule' }).click();
  await page.getByRole('dialog').getByLabel('Audit log').check();
  await page.getByRole('dialog').getByRole('button', { name: 'Create schedule' }).click();
  const row = page.getByRole('row', { name: /each month of UTC/ });
  await row.getByText('goes on').waitFor();
  expect(await violations(page)).toEqual([]);
  await row.getByRole('button', { name: 'End' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End schedule' }).click();
  await row.getByText('ended').waitFor();
  await context.close();
});

test('whoever may not export is told so, and whose right it is', async () => {
  const { page, context } = await visit(browser, { access_key: org.keys.member });
  await page.goto('/exports');
  await page.getByText('You may not see this').waitFor();
  await context.close();
});
