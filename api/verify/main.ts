import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { ConfigError, loadConfig } from '../../runtime/config';
import { checks } from './checks';
import { counted, Fault, Left, NotChecked } from './client';
import { type Deployment, type Place, placeAt } from './deployment';
import { openProbe } from './probe';

const CHECK_MS = 25_000;
/** All checks together; the clean-up has the rest of a minute. */
const ALL_MS = 52_000;
/** What the policy of npm start's gateways blocks. */
const BLOCKED_TEXT = 'svc verify: block this';
const USAGE =
  'Usage: npm run verify -- [URL of each API, gateway and console ...] [--blocked TEXT] [--strict] [--json], with ' +
  'VERIFY_PLATFORM_KEY (an access key with platform:admin) and VERIFY_GATEWAY_KEY (a gateway key). ' +
  'Without a URL, the npm start that runs on DATA_DIR.';

export interface Found {
  check: string;
  status: 'passed' | 'failed' | 'not checked';
  words: string;
  ms: number;
}

/**
 * `npm run verify`: looks at a deployment as its clients see it, and says of each part whether it
 * works; exits 1 if one does not, or with --strict if one was not checked. What it writes is named
 * verify and taken back.
 */
export async function main(args: string[]): Promise<void> {
  const { urls, is_json, is_strict, ...given } = read(args);
  const started_at = performance.now();
  const found: Found[] = [];
  const found_places: Place[] = [];
  const healths = urls.map((url) =>
    timed('health', async () => {
      const place = await placeAt(url);
      found_places.push(place);
      return `${url} is the ${place.kind} ${place.version}`;
    }),
  );
  found.push(...(await Promise.all(healths)));
  // In the order in which they were named, whichever answered first.
  const places = found_places.toSorted((a, b) => urls.indexOf(a.url) - urls.indexOf(b.url));
  const apis = places.filter(({ kind }) => kind === 'api');
  const gateways = places.filter(({ kind }) => kind === 'gateway');
  const consoles = places.filter(({ kind }) => kind === 'console');
  if (apis[0] === undefined || gateways.length === 0) {
    const words = `The rest needs one API and one gateway at least; of the addresses named, ${counted(apis.length, 'API')} and ${counted(gateways.length, 'gateway')} answer.`;
    found.push({ check: 'deployment', status: 'failed', words, ms: 0 });
  } else {
    const probe = openProbe(apis[0].url, given.platform_key, given.gateway_key);
    const deployment: Deployment = { apis, gateways, consoles, probe, ...given };
    const begun: Promise<string>[] = [];
    for (const { name, run } of checks) {
      const left_ms = Math.max(0, started_at + ALL_MS - performance.now());
      const begin = async () => {
        if (left_ms === 0) throw new Fault('No time was left for this check.');
        const running = run(deployment);
        begun.push(running);
        return running;
      };
      found.push(await timed(name, begin, Math.min(CHECK_MS, left_ms)));
    }
    found.push(await timed('clean-up', () => cleanUp(begun, probe)));
  }
  const summary = summaryOf(found, is_strict);
  print(is_json ? JSON.stringify(summary) : tableOf(found, is_strict));
  process.exitCode = summary.ok ? 0 : 1;
}

/**
 * What checks have written is gone once they have ended, also those that took too long; they need
 * the key for it.
 */
export async function cleanUp(
  begun: readonly Promise<string>[],
  probe: Pick<Deployment['probe'], 'close'>,
): Promise<string> {
  const ends = await Promise.allSettled(begun);
  await probe.close();
  const left = ends.flatMap((end) =>
    end.status === 'rejected' && end.reason instanceof Left ? [end.reason.message] : [],
  );
  if (left.length > 0) throw new Fault(left.join(' '));
  return 'nothing of this is left';
}

type Given = Pick<Deployment, 'platform_key' | 'gateway_key' | 'blocked_text' | 'database_url'> & {
  urls: string[];
  is_json: boolean;
  is_strict: boolean;
};

function read(args: string[]): Given {
  const flag = { type: 'boolean' } as const;
  const options = { blocked: { type: 'string' }, json: flag, strict: flag } as const;
  const { values, positionals } = parsed(() =>
    parseArgs({ args, options, allowPositionals: true }),
  );
  const config = loadConfig('verify');
  const demo = positionals.length === 0 ? demoIn(config.DATA_DIR) : undefined;
  const urls = demo ? [...demo.api_urls, ...demo.gateway_urls] : positionals;
  const platform_key = config.VERIFY_PLATFORM_KEY ?? demo?.keys.platform_admin;
  const gateway_key = config.VERIFY_GATEWAY_KEY ?? demo?.keys.gateway;
  if (urls.length === 0)
    throw new ConfigError(
      `No npm start runs on ${config.DATA_DIR}, and no URL is given.\n${USAGE}`,
    );
  const odd = urls.find((url) => !/^https?:\/\//.test(url) || !URL.canParse(url));
  if (odd !== undefined)
    throw new ConfigError(`${odd} is no address such as http://127.0.0.1:8080.\n${USAGE}`);
  if (!platform_key) throw new ConfigError(`VERIFY_PLATFORM_KEY is not set.\n${USAGE}`);
  if (!gateway_key) throw new ConfigError(`VERIFY_GATEWAY_KEY is not set.\n${USAGE}`);
  return {
    urls: urls.map((url) => url.replace(/\/+$/, '')),
    is_json: values.json ?? false,
    is_strict: values.strict ?? false,
    platform_key,
    gateway_key,
    blocked_text: values.blocked ?? BLOCKED_TEXT,
    database_url: config.DATABASE_URL ?? demo?.database_url,
  };
}

function parsed<Result>(parse: () => Result): Result {
  try {
    return parse();
  } catch (error) {
    throw new ConfigError(`${(error as Error).message}\n${USAGE}`);
  }
}

interface Demo {
  api_urls: string[];
  gateway_urls: string[];
  database_url: string;
  keys: { platform_admin: string; gateway: string };
}

/** What the `npm start` that runs on DATA_DIR says of itself; undefined if none runs. */
function demoIn(data_dir: string): Demo | undefined {
  try {
    return JSON.parse(readFileSync(path.join(data_dir, 'demo.json'), 'utf8'));
  } catch {
    return undefined;
  }
}

/** Runs a check to its words; one that hangs is a fault as well, and one that breaks is ours. */
async function timed(check: string, run: () => Promise<string>, end_ms = CHECK_MS): Promise<Found> {
  const since = performance.now();
  const found = (status: Found['status'], words: string): Found => {
    return { check, status, words, ms: Math.round(performance.now() - since) };
  };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const words = `This check had no end within ${Math.ceil(end_ms / 1_000)} s.`;
    timer = setTimeout(() => reject(new Fault(words)), end_ms);
  });
  try {
    return found('passed', await Promise.race([run(), late]));
  } catch (error) {
    if (error instanceof NotChecked) return found('not checked', error.message);
    if (error instanceof Fault) return found('failed', error.message);
    return found('failed', `The check itself broke: ${(error as Error).stack}`);
  } finally {
    clearTimeout(timer);
  }
}

/** All is well if nothing failed; to the strict only if everything was looked at. */
export function summaryOf(found: readonly Found[], is_strict: boolean) {
  const isWell = ({ status }: Found) =>
    status === 'passed' || (status === 'not checked' && !is_strict);
  return { ok: found.every(isWell), checks: found };
}

function tableOf(found: readonly Found[], is_strict: boolean): string {
  const width = Math.max(...found.map(({ check }) => check.length));
  const rows = found.map(
    ({ check, status, words }) => `${status.padEnd(11)}  ${check.padEnd(width)}  ${words}`,
  );
  const failed = found.filter(({ status }) => status === 'failed').length;
  const unseen = found.filter(({ status }) => status === 'not checked').length;
  const but = is_strict
    ? `${unseen} of ${found.length} not checked, which --strict does not allow.`
    : `All is well but for ${unseen} not checked.`;
  const well = unseen === 0 ? 'All is well.' : but;
  const end = failed === 0 ? well : `${failed} of ${found.length} failed.`;
  return [...rows, end].join('\n');
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
