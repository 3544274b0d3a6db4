import type { Page } from 'playwright-core';

export async function say(page: Page, words: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill(words);
  await page.keyboard.press('Enter');
}

/** The name of the element that has the focus; that of the field of messages is `TEXTAREA`. */
export const focused = (page: Page) => page.evaluate<string>('document.activeElement?.tagName');

export const answers = (page: Page) => page.getByRole('article', { name: 'Answer' });
