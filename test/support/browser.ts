import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import sparticuz from '@sparticuz/chromium';
import { type Browser, chromium } from 'playwright-core';
import { until } from './until';

// A busy machine takes ten times as long as a quiet one.
const PAGE_MS = 120_000;
const LAUNCH_MS = 180_000;

/**
 * A headless Chromium, whose pages wait two minutes for what they are asked for: the one that
 * CHROMIUM_PATH names, else one on the PATH, else the one of the development dependency.
 */
export async function openBrowser(): Promise<Browser> {
  const own = process.env.CHROMIUM_PATH ?? onPath('chromium') ?? onPath('chromium-browser');
  if (own) {
    const given = { executablePath: own, args: ['--no-sandbox'], timeout: LAUNCH_MS };
    return patient(await chromium.launch(given));
  }
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
    const given = { executablePath, args, timeout: LAUNCH_MS };
    browser = await chromium.launch(given).catch((error: Error) => {
      if (error.message.includes('ETXTBSY')) return undefined;
      throw error;
    });
    return browser !== undefined;
  });
  return patient(browser as Browser);
}

function patient(browser: Browser): Browser {
  const open = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await open(options);
    context.setDefaultTimeout(PAGE_MS);
    return context;
  };
  return browser;
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
