import type { Browser, Page } from 'playwright-core';
import { openBrowser } from '../../../support/browser';
import { visit } from '../../../support/console/visitor';
import { until } from '../../../support/until';
import { answers, focused, say } from './chatting';

let browser: Browser;

beforeAll(async () => {
  browser = await openBrowser();
});
afterAll(() => browser.close());

/** The messages that the page sends next. */
async function nextSent(page: Page): Promise<{ role: string; content: string }[]> {
  const request = await page.waitForRequest('**/api/chat/messages');
  return request.postDataJSON().messages;
}

/** A stream that breaks off behind these chunks, as the page reads it. */
const streamOf = (...chunks: object[]) => ({
  contentType: 'text/event-stream',
  body: chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join(''),
});

const saying = (content: string) => ({ choices: [{ delta: { content } }] });

test('an answer that a person stops stays with its cost, also after a reload, and is sent along', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await say(page, 'On and on [[fault:chunks count=6000]] [[fault:slow delay=100]]');
  await answers(page)
    .getByText(/^word word/)
    .waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await answers(page).getByText('stopped', { exact: true }).waitFor();
  await answers(page)
    .getByText(/gpt-4o-mini, cost \$0\.0\d+/)
    .waitFor();
  await page.reload();
  await answers(page).getByText('stopped', { exact: true }).waitFor();
  await answers(page)
    .getByText(/gpt-4o-mini, cost \$0\.0\d+/)
    .waitFor();
  const [sent] = await Promise.all([nextSent(page), say(page, 'Enough of it')]);
  expect(sent.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
  expect(sent[1]?.content).toMatch(/^word word/);
  await answers(page).getByText('You said: Enough of it').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('an answer that its provider cuts stays, with why and with what the part cost', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await say(page, 'One two three four five six seven [[fault:cut after=7]]');
  await answers(page).getByText('broke off', { exact: true }).waitFor();
  await answers(page)
    .getByText(/^You said: One/)
    .waitFor();
  await answers(page)
    .getByText(/gpt-4o-mini, cost \$0\.0\d+/)
    .waitFor();
  await answers(page).getByRole('link', { name: 'How that adds up' }).click();
  await page.getByRole('heading', { name: 'A call of gpt-4o-mini' }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('an answer whose connection breaks is asked anew without its part, which stays', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await page.route('**/api/chat/messages', (route) => route.fulfill(streamOf(saying('Half of'))));
  await say(page, 'All of it');
  const half = answers(page).filter({ hasText: 'Half of' });
  await half.getByText('broke off', { exact: true }).waitFor();
  await half.getByText('A new call without this answer, with a cost of its own.').waitFor();
  await page.unroute('**/api/chat/messages');
  const [sent] = await Promise.all([
    nextSent(page),
    half.getByRole('button', { name: 'Try again' }).click(),
  ]);
  expect(sent).toEqual([{ role: 'user', content: 'All of it' }]);
  expect(await focused(page)).toBe('TEXTAREA');
  await answers(page).getByText('You said: All of it').waitFor();
  // Until it is whole, nothing else is sent.
  await answers(page)
    .getByText(/gpt-4o-mini, cost \$0\.0\d+/)
    .waitFor();
  await half.getByText('so it is not sent along any more').waitFor();
  expect(await half.getByRole('button', { name: 'Try again' }).count()).toBe(0);
  const [next] = await Promise.all([nextSent(page), say(page, 'And more')]);
  expect(next.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
  expect(next[1]?.content).toContain('You said: All of it');
  await answers(page).getByText('You said: And more').waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

test('an answer asked anew in vain leaves the part that came before in its place', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  const broken = [streamOf(saying('First half')), streamOf({ error: { message: 'Nothing.' } })];
  await page.route('**/api/chat/messages', (route) => route.fulfill(broken.shift()));
  await say(page, 'All of it');
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('The answer broke off').waitFor();
  await page.getByText('Nothing.', { exact: true }).waitFor();
  await page.unroute('**/api/chat/messages');
  const half = answers(page).filter({ hasText: 'First half' });
  await half.getByText('What came is sent along with your next message.').waitFor();
  const [sent] = await Promise.all([nextSent(page), say(page, 'Go on')]);
  expect(sent.map(({ content }) => content)).toEqual(['All of it', 'First half', 'Go on']);
  await answers(page).getByText('You said: Go on').waitFor();
  await context.close();
});

test('whoever leaves the page in the middle of an answer finds what had come', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  for (const leave of [
    () => page.reload(),
    async () => {
      await page.getByRole('link', { name: 'Home' }).click();
      await page.getByRole('heading', { name: 'Home' }).waitFor();
      await page.getByRole('link', { name: 'Chat' }).click();
    },
  ]) {
    await page.getByRole('button', { name: 'New chat' }).waitFor();
    await say(page, 'On and on [[fault:chunks count=6000]] [[fault:slow delay=100]]');
    const last = answers(page).last();
    await last.getByText(/^word word/).waitFor();
    await leave();
    // A browser may end the connection of a page that is loaded anew before it tells the page.
    await last.getByText(/before (?:it|the answer) had ended\./).waitFor();
    await page.getByRole('button', { name: 'New chat' }).click();
  }
  expect(complaints).toEqual([]);
  await context.close();
});

test('a question that is stopped before a word came is back in the field, and says so', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await say(page, 'Wait for it [[fault:silence after=0]]');
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped before an answer came').waitFor();
  const field = page.getByRole('textbox', { name: 'Message' });
  expect(await field.inputValue()).toBe('Wait for it [[fault:silence after=0]]');
  expect(await focused(page)).toBe('TEXTAREA');
  expect(await answers(page).count()).toBe(0);
  await context.close();
});

/** From here on the page's calls of models begin as `req_left`, and say nothing. */
const fallSilent = (page: Page) =>
  page.evaluate(`(() => {
    const real = window.fetch;
    window.begun = false;
    window.fetch = (...given) => {
      if (!String(given[0]).endsWith('/api/chat/messages')) return real(...given);
      const body = new ReadableStream(
        { pull() { window.begun = true; } },
        { highWaterMark: 0 },
      );
      const headers = { 'x-svc-request-id': 'req_left' };
      return Promise.resolve(new Response(body, { headers }));
    };
  })()`);

test('whoever leaves a call that had begun, before a word came, finds the way to its cost', async () => {
  const { page, context, complaints } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await page.getByRole('button', { name: 'New chat' }).waitFor();
  await fallSilent(page);
  await say(page, 'Wait for it');
  await until(() => page.evaluate<boolean>('window.begun'));
  await page.reload();
  await page.getByText('You left before an answer came').waitFor();
  const cost = page.getByRole('link', { name: 'What it cost' });
  expect(await cost.getAttribute('href')).toBe('/requests/req_left');
  const field = page.getByRole('textbox', { name: 'Message' });
  expect(await field.inputValue()).toBe('Wait for it');
  await say(page, 'Something else');
  await answers(page).getByText('You said: Something else').waitFor();
  expect(await cost.count()).toBe(0);
  expect(complaints).toEqual([]);
  await context.close();
});

test('a question that comes back stands before what was typed meanwhile', async () => {
  const { page, context } = await visit(browser, { role: 'owner' });
  await page.goto('/chat');
  await say(page, 'Wait for it [[fault:silence after=0]]');
  const stop = page.getByRole('button', { name: 'Stop' });
  await stop.waitFor();
  const field = page.getByRole('textbox', { name: 'Message' });
  await field.fill('And then this');
  await stop.click();
  await page.getByText('Stopped before an answer came').waitFor();
  const both = 'Wait for it [[fault:silence after=0]]\n\nAnd then this';
  expect(await field.inputValue()).toBe(both);
  await context.close();
});
