import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { childVariables } from '../../runtime/config';
import { root } from '../../runtime/root';
import { localUrl, type Ports, type StartOptions } from '../processes/addresses';
import { cookieKey } from '../processes/secrets-key';
import type { Stack } from '../processes/stack';
import type { Kept } from '../processes/supervisor';
import { serverProgram } from './node-programs';

const BUILD_MS = 60_000;

interface ConsoleContext {
  options: StartOptions;
  ports: Ports;
  stack: Stack;
}

/** Builds the console's pages for this start's addresses; sources that were built are not again. */
export async function buildConsole({ options, ports }: ConsoleContext): Promise<string> {
  const folder = path.resolve(options.DATA_DIR, 'console');
  const env = {
    ...childVariables({ process_name: 'console_build' }),
    PUBLIC_API_URL: localUrl(ports.apis[0] as number),
    PUBLIC_GATEWAY_URL: localUrl(ports.gateways[0] as number),
    CONSOLE_DIR: folder,
  };
  const args = ['run.cjs', 'console/build.ts'];
  await promisify(execFile)(process.execPath, args, { cwd: root, env, timeout: BUILD_MS });
  return folder;
}

/** Starts the console once its pages are built. */
export async function startConsole(
  context: ConsoleContext,
  building: Promise<string>,
): Promise<Kept> {
  const { options, ports, stack } = context;
  const api_url = localUrl(ports.apis[0] as number);
  const program = serverProgram({
    name: 'console',
    script: 'console/main.ts',
    process_name: 'console',
    env: {
      CONSOLE_PORT: String(ports.console),
      CONSOLE_HOST: options.CONSOLE_HOST,
      CONSOLE_ORIGIN: localUrl(ports.console),
      CONSOLE_API_URL: api_url,
      CONSOLE_GATEWAY_URL: localUrl(ports.gateways[0] as number),
      CONSOLE_COOKIE_KEYS: cookieKey(options),
      CONSOLE_DIR: await building,
    },
    ready_url: `${localUrl(ports.console)}/api/health`,
  });
  return stack.run('services', program);
}
