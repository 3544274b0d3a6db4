import path from 'node:path';
import { loadSettings } from '../gateway/config/settings';
import { loadConfig } from '../runtime/config';
import { logFolder, removeDemo, setModelsKey, writeDemo } from './demo/demo';
import { welcome } from './demo/welcome';
import { choosePorts } from './processes/addresses';
import { claimDirectory } from './processes/data-directory';
import { createOutput, type Output } from './processes/output';
import { openStack, type Stack } from './processes/stack';
import { type Product, startProduct } from './product/product';

// npm passes on the Ctrl-C that the terminal gives to both of us: two signals this close are one.
const SAME_SIGNAL_MS = 500;
const NPM_CHECK_MS = 500;

async function run(): Promise<void> {
  const options = loadConfig('product');
  setModelsKey();
  // Refused before anything has started; the gateways read it themselves.
  if (options.GATEWAY_CONFIG) loadSettings(options.GATEWAY_CONFIG);
  let onClosed = () => {};
  const output = createOutput(logFolder(options), () => onClosed());
  const told = toldToStop((stop) => {
    onClosed = stop;
  });
  const claim = await claimDirectory(path.resolve(options.DATA_DIR));
  let product: Product | undefined;
  const refreshDemo = () => product && writeDemo(options, product.demo());
  const stack = openStack(output, claim, refreshDemo);
  try {
    removeDemo(options);
    const ports = await choosePorts(options);
    const starting = startProduct({ options, ports, stack, output });
    product = await Promise.race([starting, told.then(() => undefined)]);
    if (product) announce(product, output, refreshDemo);
    await told;
  } finally {
    product = undefined;
    claim.leave();
    removeDemo(options);
    output.log.info('stopping; a second Ctrl-C kills');
    killWhenToldAgain(stack, claim.release);
    await stack.stop();
    claim.release();
  }
  output.log.info('everything has stopped');
}

function announce(product: Product, output: Output, refreshDemo: () => void): void {
  refreshDemo();
  output.say(welcome(product.demo(), product.more));
}

/**
 * Resolves at the first reason to end: a signal, no reader of our output, or the npm that started
 * us is gone.
 */
function toldToStop(onStop: (stop: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    onStop(resolve);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, resolve);
    if (process.env.npm_lifecycle_event === undefined) return;
    const npm = process.ppid;
    setInterval(() => process.ppid !== npm && resolve(), NPM_CHECK_MS).unref();
  });
}

function killWhenToldAgain(stack: Stack, release: () => void): void {
  const since = performance.now();
  const kill = () => {
    if (performance.now() - since < SAME_SIGNAL_MS) return;
    stack.kill();
    release();
    process.exit(1);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, kill);
}

/**
 * `npm start`. If an error stops it, the person at the terminal reads it after the lines of its
 * parts.
 */
export async function main(): Promise<void> {
  try {
    await run();
    process.exit(0);
  } catch (error) {
    process.stderr.write(`\n${(error as Error).message}\n`);
    process.exit(1);
  }
}
