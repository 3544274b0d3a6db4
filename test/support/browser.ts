import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import sparticuz from '@sparticuz/chromium';
import { type Browser, chromium } from 'playwright-core';
import { until } from './until';

/**
 * A headless Chromium: the one that CHROMIUM_PATH names, else one on the PATH, else the one of the
 * development dependency.
 */
export async function openBrowser(): Promise<Browser> {
  const own = process.env.CHROMIUM_PATH ?? onPath('chromium') ?? onPath('chromium-browser');
  if (own) return chromium.launch({ executablePath: own, args: ['--no-sandbox'] });
  // In one process the whole browser ends with its first page.
  const args = sparticuz.args.filter((arg) => arg !== '--single-process');
  let browser: Browser | undefined;
  // Another test file's process may be unpacking the program still.
  await until(async () => {
    const executablePath = await sparticuz.executablePath().catch((error: Error) => {
      throw new Error(
        `No Chromium was found: name one in CHROMIUM_PATH, or install Debian's package chromium. ${error.message}`,
      );
    });
    browser = await chromium.launch({ executablePath, args }).catch((error: Error) => {
      if (error.message.includes('ETXTBSY')) return undefined;
      throw error;
    });
    return browser !== undefined;
  });
  return browser as Browser;
}

function onPath(name: string): string | undefined {
  const folders = (process.env.PATH ?? '').split(path.delimiter);
  return folders.map((folder) => path.join(folder, name)).find(isProgram);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
