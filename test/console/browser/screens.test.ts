import type { Browser } from 'playwright-core';
import { openBrowser } from '../../support/browser';
import { violations } from '../../support/console/axe';
import { settled } from '../../support/console/look';
import { ask, demo, picture, type Visit, visit } from '../../support/console/visitor';
import { operator_screens, screens } from '../screens';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

const nameOf = (path: string) => path.slice(1).replaceAll(/[/?=]/g, '-') || 'home';

/** An operator who looks at the demo's organization. */
async function operator(more: { scheme?: 'light' | 'dark'; width?: number }): Promise<Visit> {
  const seen = await visit(browser, { role: 'platform_admin', ...more });
  const org_id = demo().organization_id;
  expect(await ask(seen.page, 'PUT', '/api/session/org', { org_id })).toBe(204);
  return seen;
}

function nothingAmiss({ complaints, asked }: Visit): void {
  expect(complaints).toEqual([]);
  expect([...asked]).toEqual([demo().console_url]);
}

describe.each(['light', 'dark'] as const)('in %s colours', (scheme) => {
  test('every screen has what axe asks for, breaks no policy, and asks no other origin', async () => {
    const seen = await visit(browser, { role: 'owner', scheme });
    for (const path of screens) {
      await seen.page.goto(path);
      await settled(seen.page);
      await picture(seen.page, `${nameOf(path)}-${scheme}`);
      expect([path, await violations(seen.page)]).toEqual([path, []]);
    }
    nothingAmiss(seen);
    await seen.context.close();
  });

  test('so have the screens of operators', async () => {
    const seen = await operator({ scheme });
    for (const path of operator_screens) {
      await seen.page.goto(path);
      await settled(seen.page);
      await picture(seen.page, `${nameOf(path)}-${scheme}`);
      expect([path, await violations(seen.page)]).toEqual([path, []]);
    }
    nothingAmiss(seen);
    await seen.context.close();
  });

  test('so has the page of sign-in', async () => {
    const seen = await visit(browser, { scheme });
    await seen.page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
    await picture(seen.page, `login-${scheme}`);
    expect(await violations(seen.page)).toEqual([]);
    nothingAmiss(seen);
    await seen.context.close();
  });
});

test.each(['member', 'platform_admin'] as const)(
  'a %s finds every screen, also those that are not for them, in words and with what axe asks for',
  async (role) => {
    const seen = await visit(browser, { role });
    for (const path of screens) {
      await seen.page.goto(path);
      await settled(seen.page);
      await picture(seen.page, `${nameOf(path)}-${role}`);
      expect([path, await violations(seen.page)]).toEqual([path, []]);
      expect([path, await seen.page.getByText('This page broke').count()]).toEqual([path, 0]);
    }
    nothingAmiss(seen);
    await seen.context.close();
  },
);

test('no screen is wider than a phone of 320 px', async () => {
  const owner = await visit(browser, { role: 'owner', width: 320 });
  const all = [
    { seen: owner, paths: screens },
    { seen: await operator({ width: 320 }), paths: operator_screens },
  ];
  for (const { seen, paths } of all) {
    for (const path of paths) {
      await seen.page.goto(path);
      await settled(seen.page);
      await picture(seen.page, `${nameOf(path)}-320`);
      const width = await seen.page.evaluate('document.documentElement.scrollWidth');
      expect([path, width]).toEqual([path, 320]);
    }
    await seen.context.close();
  }
});

// What of a row's buttons lies beside the page.
const OUT_OF_REACH = `[...document.querySelectorAll('td.actions button, td.actions a')]
  .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth)
  .map((one) => one.textContent)`;

test.each([1280, 1024, 800])(
  'on a page of %i px no button of a row is out of reach',
  async (width) => {
    const owner = await visit(browser, { role: 'owner', width });
    const all = [
      { seen: owner, paths: screens },
      { seen: await operator({ width }), paths: operator_screens },
    ];
    for (const { seen, paths } of all) {
      for (const path of paths) {
        await seen.page.goto(path);
        await settled(seen.page);
        expect([path, await seen.page.evaluate(OUT_OF_REACH)]).toEqual([path, []]);
        const whole = await seen.page.evaluate('document.documentElement.scrollWidth');
        expect([path, whole]).toEqual([path, width]);
        if (path === '/keys') await picture(seen.page, `keys-${width}`);
      }
      await seen.context.close();
    }
  },
);
