import type { Page } from 'playwright-core';

export async function say(page: Page, words: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Message' }).fill(words);
  await page.keyboard.press('Enter');
}

export const answers = (page: Page) => page.getByRole('article', { name: 'Answer' });
