import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse, stringify } from 'yaml';
import { type Db, many } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { root } from '../../runtime/root';
import { blocksOf, documents, keeps, type RecipeStep, stepsOf } from '../support/recipes';
import { type BreakableRedis, openRedis } from '../support/redis';
import { scratchRoot } from '../support/scratch';
import { until } from '../support/until';

// Runs the shell recipes of all documents against one npm start, each document in a shell of its
// own that knows the README's variables.

const scratch = mkdtempSync(path.join(scratchRoot(), 'svc-docs-'));
// PostgreSQL's system user must enter it if the tests run as root.
chmodSync(scratch, 0o755);
const data_dir = path.join(scratch, 'data');
const START_MS = 300_000;
const ANSWER_MS = 120_000;
// So long may a machine be too busy for a recipe.
const BUSY_MS = 300_000;
const MINUTE_MS = 60_000;
// Two calls and a refusal fit into the rest of a window.
const LEFT_MS = 15_000;

const has_jq = spawnSync('jq', ['--version']).status === 0;
/** Filters beyond a path need the real jq: without it, such an output is not compared. */
const isFiltered = (command: string) => /jq (-\w+ )*'[^.]|jq (-\w+ )*'\.[^']*[|{/]/.test(command);

let redis: BreakableRedis;
let npm: ChildProcess;
let output = '';
let files = 0;

beforeAll(async () => {
  redis = await openRedis();
  npm = spawn('npm', ['start'], {
    cwd: root,
    env: {
      ...environment(),
      PORTS: 'free',
      GATEWAYS: '2',
      REDIS_URL: redis.url,
      GATEWAY_SECRET_ENVS: 'REDIS_URL',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [npm.stdout, npm.stderr]) {
    stream?.on('data', (chunk) => {
      output += chunk;
    });
  }
  await until(() => output.includes('Ctrl-C stops everything') || npm.exitCode !== null, START_MS);
  if (npm.exitCode !== null) throw new Error(output);
}, START_MS);

afterAll(async () => {
  if (npm.exitCode === null) {
    npm.kill('SIGTERM');
    await once(npm, 'exit');
  }
  await redis.close();
  rmSync(scratch, { recursive: true, force: true });
}, START_MS);

const shelled = documents.filter((file) => shellBlocksOf(file).length > 0);

test.each(shelled)(
  'the shell recipes of %s print what stands below them',
  async (file) => {
    const shell = openShell();
    const waiting: { step: RecipeStep; file: string }[] = [];
    const written = readFileSync(path.join(data_dir, 'gateway.yaml'), 'utf8');
    try {
      if (file !== 'README.md') await setVariables(shell);
      for (const block of blocksOf(file)) {
        if (block.mark !== undefined) await reload(withBlock(written, block.text));
        if (!['sh', 'console'].includes(block.language)) continue;
        for (const step of stepsOf(block)) {
          if (file === 'README.md') await untilSettled();
          if (!step.waits) {
            await expectKept(shell, step);
            continue;
          }
          const begun = shell.begin(step.command);
          waiting.push({ step, file: begun });
          // The next step is to meet it.
          await untilUnderWay(begun);
        }
      }
      for (const one of waiting) {
        await until(() => isKept(one.step, readFileSync(one.file, 'utf8')), ANSWER_MS).catch(() =>
          expect(readFileSync(one.file, 'utf8')).toBe(one.step.promised),
        );
      }
    } finally {
      shell.close();
      await reload(written);
    }
  },
  15 * MINUTE_MS,
);

function shellBlocksOf(file: string) {
  return blocksOf(file).filter(({ language }) => ['sh', 'console'].includes(language));
}

/** The README's first block in sh exports what all others use. */
async function setVariables(shell: Shell): Promise<void> {
  const [exports] = blocksOf('README.md').filter(({ language }) => language === 'sh');
  expect((await shell.run(exports?.text as string)).status).toBe(0);
}

/**
 * Until nothing is held: a reader takes longer to the next command than a settlement to its entry,
 * and the README shows the entries in their order.
 */
function untilSettled(): Promise<void> {
  const sql = "select id from reservations where status = 'open'";
  return inDatabase((db) => until(async () => (await many(db, sql)).length === 0));
}

/** Until a stream has said its first words to its file, or a call is held. */
function untilUnderWay(file: string): Promise<void> {
  const sql = 'select 1 from ticket_waiters where answer is null and until > clock_timestamp()';
  const has_begun = () => readFileSync(file).length > 0;
  return inDatabase((db) => until(async () => has_begun() || (await many(db, sql)).length > 0));
}

async function inDatabase(work: (db: Db) => Promise<void>): Promise<void> {
  const { database_url } = JSON.parse(readFileSync(path.join(data_dir, 'demo.json'), 'utf8'));
  const db = openDatabase(database_url, 1);
  await work(db).finally(() => db.destroy());
}

/**
 * Reads may be early, as a settlement follows its answer: they are asked again. So is what is to be
 * refused by a limit, if its minute has passed meanwhile, and what a busy machine was too slow for.
 */
async function expectKept(shell: Shell, step: RecipeStep): Promise<void> {
  const is_read = !/ -d | -X /.test(step.command);
  const is_limited = step.promised.startsWith('HTTP/1.1 429');
  const since = performance.now();
  for (;;) {
    const { status, printed } = await shell.run(step.command);
    if (status === 0 && isKept(step, printed)) return;
    const is_busy = printed.includes('"overloaded_error"');
    const bound_ms = is_busy ? BUSY_MS : is_read || is_limited ? ANSWER_MS : 0;
    if (performance.now() - since < bound_ms) {
      await sleep(100);
      continue;
    }
    expect({ status, printed }).toEqual({ status: 0, printed: step.promised });
    throw new Error(`${step.command} prints its promise letter by letter, which keeps() denies.`);
  }
}

function isKept({ command, promised }: RecipeStep, printed: string): boolean {
  if (promised === '') return true;
  if (!has_jq && isFiltered(command)) return printed.trim() !== '';
  return keeps(promised, printed);
}

/** The gateway's file with the sections of a recipe, each in place of its own. */
function withBlock(written: string, block: string): string {
  return stringify({ ...parse(written), ...parse(block) });
}

/** Gives the gateways another configuration, early in a minute: limits count by it. */
async function reload(text: string): Promise<void> {
  const file = path.join(data_dir, 'gateway.yaml');
  if (text === readFileSync(file, 'utf8')) return;
  const left = MINUTE_MS - (Date.now() % MINUTE_MS);
  if (left < LEFT_MS && text.includes('rate_limits')) await sleep(left);
  writeFileSync(file, text);
  const { gateway_urls, keys } = demo();
  for (const url of gateway_urls) {
    const headers = { authorization: `Bearer ${keys.control_plane}` };
    const answer = await fetch(`${url}/svc/config/reload`, { method: 'POST', headers });
    expect(await answer.json()).toMatchObject({ status: 'reloaded' });
  }
}

function demo(): { gateway_urls: string[]; keys: { control_plane: string } } {
  return JSON.parse(readFileSync(path.join(data_dir, 'demo.json'), 'utf8'));
}

/** Keys of one's own, which a recipe asks its reader for, and a jq for machines without one. */
function environment(): NodeJS.ProcessEnv {
  const given = { STRIPE_KEY: 'rk_live_0123', STRIPE_WEBHOOK_SECRET: 'whsec_0123' };
  return { ...process.env, DATA_DIR: data_dir, ...given };
}

type Shell = ReturnType<typeof openShell>;

/** A bash that keeps its variables from one command to the next. */
function openShell() {
  const bash = spawn('bash', ['--noprofile', '--norc'], {
    cwd: root,
    env: environment(),
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const lines = createInterface({ input: bash.stdout });
  const stand_in = `jq() { '${process.execPath}' '${path.join(root, 'test/support/jq.cjs')}' "$@"; }\n`;
  bash.stdin.write(has_jq ? 'set -o pipefail\n' : `set -o pipefail\n${stand_in}`);
  const into = (file: string, command: string) =>
    `{ ${command.replaceAll('.data/', `${data_dir}/`)}\n} >'${file}' 2>&1 </dev/null`;
  const newFile = () => {
    files += 1;
    return path.join(scratch, `output-${files}`);
  };
  return {
    async run(command: string): Promise<{ status: number; printed: string }> {
      const file = newFile();
      const ended = once(lines, 'line');
      bash.stdin.write(`${into(file, command)}; echo $?\n`);
      const [status] = await ended;
      return { status: Number(status), printed: readFileSync(file, 'utf8').trim() };
    },
    /** Starts a command in another terminal, as it were; gives the file of its output. */
    begin(command: string): string {
      const file = newFile();
      writeFileSync(file, '');
      bash.stdin.write(`${into(file, command)} &\n`);
      return file;
    },
    close(): void {
      process.kill(-(bash.pid as number), 'SIGKILL');
    },
  };
}
