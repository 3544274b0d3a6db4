import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { root } from '../../../runtime/root';
import type { Demo } from '../../../sandbox/demo/facts';
import { repeated } from '../until';

/** The running product of this run. */
export function demo(): Demo {
  return JSON.parse(readFileSync(process.env.SVC_CONSOLE_DEMO as string, 'utf8'));
}

type Role = 'owner' | 'billing_admin' | 'member' | 'platform_admin';

export interface Visit {
  page: Page;
  context: BrowserContext;
  /** What the browser reported: violations of the policy, errors of scripts. */
  complaints: string[];
  /** Origins that were asked, but for pages that the test itself went to. */
  asked: Set<string>;
}

/** Somebody at the console, in a browser of their own; signed in if a role is named. */
export async function visit(
  browser: Browser,
  {
    role,
    access_key,
    scheme = 'light',
    width = 1_200,
    locale = 'en-US',
  }: {
    role?: Role;
    /** Of somebody whom the demo does not know. */
    access_key?: string;
    scheme?: 'light' | 'dark';
    width?: number;
    locale?: string;
  } = {},
): Promise<Visit> {
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport: { width, height: 800 },
    locale,
    baseURL: demo().console_url,
    // Sign-ins are counted by address: each visitor comes from one of their own.
    extraHTTPHeaders: { 'x-forwarded-for': address() },
  });
  const page = await context.newPage();
  const seen: Visit = { page, context, complaints: [], asked: new Set() };
  page.on('console', (message) => {
    // A refusal is answered to the page, which says it; the browser notes each by itself.
    const is_refusal = message.text().startsWith('Failed to load resource');
    if (message.type() === 'error' && !is_refusal) seen.complaints.push(message.text());
  });
  page.on('pageerror', (error) => seen.complaints.push(String(error)));
  page.on('request', (request) => seen.asked.add(new URL(request.url()).origin));
  await page.goto('/login');
  const key = access_key ?? (role && keyOf(role));
  if (key !== undefined) {
    expect(await ask(page, 'POST', '/api/session', { access_key: key })).toBe(204);
    await page.goto('/');
  }
  return seen;
}

function address(): string {
  const [a, b, c] = randomBytes(3);
  return `10.${a}.${b}.${c}`;
}

/** Signs in by script, as the page does; 204. */
export function signIn(page: Page, role: Role): Promise<number> {
  return ask(page, 'POST', '/api/session', { access_key: keyOf(role) });
}

function keyOf(role: Role): string {
  return role === 'owner' ? (process.env.SVC_CONSOLE_OWNER_KEY as string) : demo().keys[role];
}

/** The status of a request that the console's own page makes. */
export function ask(page: Page, method: string, url: string, body?: object): Promise<number> {
  return page.evaluate(
    async ([method, url, body]) => {
      const answer = await fetch(url as string, {
        method: method as string,
        headers: { 'x-svc-console': '1', 'content-type': 'application/json' },
        body: body === undefined ? null : JSON.stringify(body),
      });
      return answer.status;
    },
    [method, url, body] as const,
  );
}

/**
 * A request of the API in the name of a key of the demo; its answer. It is repeated for as long as
 * it is 503, as when a busy machine lets Temporal or a read be late.
 */
export async function api<T = Record<string, unknown>>(
  key: string,
  method: string,
  route: string,
  body?: object,
): Promise<T> {
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    ...(route.endsWith('/create-checkout') ? { 'idempotency-key': randomUUID() } : {}),
  };
  const sent = { method, headers, body: body === undefined ? null : JSON.stringify(body) };
  const ask = async () => {
    const answer = await fetch(`${demo().api_url}${route}`, sent);
    const { status, ok } = answer;
    return { status, ok, headers: Object.fromEntries(answer.headers), text: await answer.text() };
  };
  const { status, ok, text } = await repeated(ask);
  if (!ok) throw new Error(`${method} ${route}: ${status} ${text}`);
  return JSON.parse(text) as T;
}

const shots = path.join(root, '.data/screenshots');

/** Keeps a picture of a page, for people to look at. */
export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
}
