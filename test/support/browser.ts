import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import sparticuz from '@sparticuz/chromium';
import { type Browser, chromium } from 'playwright-core';

/**
 * A headless Chromium: the one that CHROMIUM_PATH names, else one on the PATH, else the one of the
 * development dependency.
 */
export async function openBrowser(): Promise<Browser> {
  const own = process.env.CHROMIUM_PATH ?? onPath('chromium') ?? onPath('chromium-browser');
  if (own) return chromium.launch({ executablePath: own, args: ['--no-sandbox'] });
  return chromium.launch({
    executablePath: await sparticuz.executablePath(),
    // In one process the whole browser ends with its first page.
    args: sparticuz.args.filter((arg) => arg !== '--single-process'),
  });
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
