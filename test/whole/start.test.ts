import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import type { Demo } from '../../sandbox/demo/facts';
import { type Birth, birthOf, isAlive } from '../../sandbox/processes/leftovers';
import { besideReference } from '../support/cpu';
import { pressFirst } from '../support/payments/sandbox';
import { blocksOf, documents, printedBy } from '../support/recipes';
import { scratchRoot } from '../support/scratch';
import { until } from '../support/until';
import { requireClosed } from './closed-start';
import {
  answerOf,
  npmStart,
  printedCalls,
  type Started,
  shell,
  status,
  typesOf,
} from './npm-start';

const scratch = mkdtempSync(path.join(scratchRoot(), 'svc-start-'));
// PostgreSQL's system user must enter it if the tests run as root.
chmodSync(scratch, 0o755);
const data_dir = path.join(scratch, 'data');
const demo_file = path.join(data_dir, 'demo.json');

let npm: Started;
let first: Demo;

beforeAll(async () => {
  npm = npmStart(data_dir, { SOME_SECRET: 'of-another-program' });
  first = await demoOf(npm);
});

afterAll(async () => {
  npm.process.kill('SIGTERM');
  await npm.ended;
  rmSync(scratch, { recursive: true, force: true });
});

test('the three printed calls answer, stream, and show both in the ledger', async () => {
  expect(statSync(demo_file).mode & 0o777).toBe(0o600);
  expect(first.gateway_urls).toHaveLength(2);
  const [chat = '', stream = '', ledger = ''] = printedCalls(npm.output());
  const answer = await answerOf(chat);
  expect(answer.choices[0].message.content).toContain('Say hello.');
  expect(answer.usage.total_tokens).toBeGreaterThan(0);
  expect(await shell(stream)).toMatch(/^data: \{.*data: \[DONE\]\s*$/s);
  // A stream is settled once its last byte is out, a moment after the client has it.
  await until(async () => typesOf(await shell(ledger)).length === 5);
  expect(typesOf(await shell(ledger))).toEqual(
    expect.arrayContaining([
      'credit',
      ...Array(2).fill('reservation'),
      ...Array(2).fill('settlement'),
    ]),
  );
});

test('each process knows only its own secrets, and nobody else looks into the data', () =>
  requireClosed({ pids: first.pids, data_dir }));

test("the README's recipes for each client print what stands behind them", async () => {
  const recipes = documents.flatMap(blocksOf).filter(({ language }) => language === 'ts');
  expect(recipes.length).toBeGreaterThanOrEqual(7);
  for (const { text: recipe } of recipes) {
    const script = recipe.replaceAll('http://127.0.0.1:8081', first.gateway_url);
    const stdout = await printedBy(script, { SVC_GATEWAY_KEY: first.keys.gateway });
    const promised = [...recipe.matchAll(/ \/\/ (.+)$/gm)].map(([, words]) => words);
    if (promised.length > 0) expect(stdout.trimEnd().split('\n')).toEqual(promised);
    else expect(stdout).toContain('You said: Hello. This is gpt-4o-mini of the sandbox.');
  }
});

test('the printed walk through a ticket drains, hangs, approves, answers and refills, as often as it is walked', async () => {
  for (let times = 0; times < 2; times += 1) {
    await walkThroughTicket();
    const [, , , , , , refill = ''] = printedCalls(npm.output());
    expect((await answerOf(refill)).to.balance).toBeGreaterThan(99);
  }
});

test('a step of the walk that has nothing to do says so, and changes nothing', async () => {
  const [, , , , , approve = '', refill = ''] = printedCalls(npm.output());
  expect((await answerOf(approve)).error.code).toBe('not_found');
  expect((await answerOf(refill)).error).toMatchObject({ param: 'amount' });
});

test('the printed top-up is made, paid on its page, confirmed and sent back, and the page of the buyer answers', async () => {
  const [create = '', confirm = '', history = '', refund = ''] = printedCalls(npm.output()).slice(
    7,
  );
  const made = await answerOf(create);
  expect(await answerOf(confirm)).toMatchObject({ error_code: 'not_approved' });
  const pressed = await pressFirst(made.approval_url);
  const back = pressed.headers.get('location') as string;
  expect(back.startsWith(first.return_url)).toBe(true);
  expect(await status(back)).toBe(200);
  expect(await status(first.cancel_url)).toBe(200);
  // One look at the provider in two seconds: sooner, a confirm says what the last one found.
  const isDone = async () => (await answerOf(confirm)).status === 'completed';
  await until(isDone);
  expect(await answerOf(confirm)).toMatchObject({ credited_amount: 25 });
  expect(await answerOf(refund)).toMatchObject({ status: 'refunded' });
  expect((await answerOf(history)).sessions).toMatchObject([
    { id: made.payment_session_id, status: 'refunded' },
  ]);
});

test('the printed page tops up by clicks alone', async () => {
  const { shop_url } = first.sandbox;
  expect(npm.output()).toContain(`\n  ${shop_url}/\n`);
  expect(await (await fetch(`${shop_url}/`)).text()).toContain('Top up 10 USD');
  const begun = await fetch(`${shop_url}/top-up`, {
    method: 'POST',
    body: new URLSearchParams({ amount: '10' }),
    redirect: 'manual',
  });
  const pressed = await pressFirst(begun.headers.get('location') as string);
  const back = pressed.headers.get('location') as string;
  for (let times = 0; times < 2; times += 1)
    expect(await (await fetch(back)).text()).toContain(
      '<h1>Credited</h1><p class="money">10 USD</p>',
    );
});

test('nothing of it can be reached from another machine', async () => {
  const { api_url, gateway_urls, sandbox } = first;
  const { models_url, ...payment_urls } = sandbox;
  const shown = [`${models_url}/sandbox/requests`, ...Object.values(payment_urls)];
  for (const url of [api_url, ...gateway_urls, ...shown]) {
    // Loopback too, but another address: a server on all interfaces answers there.
    const elsewhere = url.replace('127.0.0.1', '127.0.0.2');
    expect([url, await status(elsewhere).catch(() => 'refused')]).toEqual([url, 'refused']);
  }
});

test('each request is a line in the log files of gateway and API, and none on the console', async () => {
  const [chat = ''] = printedCalls(npm.output());
  await shell(chat);
  const linesOf = (name: string) =>
    readFileSync(path.join(data_dir, 'logs', `${name}.log`), 'utf8')
      .split('\n')
      .filter((line) => line.includes('"msg":"request"'));
  await until(() => linesOf('gateway-1').length > 0 && linesOf('api').length > 0);
  expect(JSON.parse(linesOf('gateway-1').at(-1) as string)).toMatchObject({
    route: '/v1/chat/completions',
    org_id: first.organization_id,
    model: first.models[0],
    status: 200,
  });
  expect(npm.output()).not.toContain('/v1/gateway/');
  expect(npm.output()).toContain(path.join(data_dir, 'logs'));
});

test('npm run verify finds that all of it works', async () => {
  const table = await shell(`DATA_DIR=${data_dir} npm run -s verify`);
  expect(table).toMatch(/^(passed .*\n){15}All is well\.\n$/);
});

test('a second npm start on the same data directory is refused, and disturbs nothing', async () => {
  const second = npmStart(data_dir);
  await second.ended;
  expect(second.output()).toMatch(/is in use by process \d+, another npm start/);
  expect(await status(`${first.api_url}/readyz`)).toBe(200);
  expect(readDemo()).toEqual(first);
});

test('a gateway, an API and a worker that are killed run again, and demo.json and the log say so', async () => {
  const { gateways, apis, worker_lifecycle } = first.pids;
  const killed = [gateways[1], apis[0], worker_lifecycle] as number[];
  for (const pid of killed) process.kill(pid, 'SIGKILL');
  await until(() => {
    const { pids } = readDemo();
    const now = [...pids.gateways, ...pids.apis, pids.worker_lifecycle];
    return killed.every((pid) => !now.includes(pid));
  });
  expect(readDemo().pids.gateways[0]).toBe(gateways[0]);
  expect(readDemo().keys).toEqual(first.keys);
  expect(await status(`${first.gateway_urls[1]}/readyz`)).toBe(200);
  expect(await status(`${first.api_url}/readyz`)).toBe(200);
  for (const name of ['gateway-2', 'api', 'workers']) {
    expect(npm.output()).toContain(`${name} ended by SIGKILL; starting it again`);
  }
});

test('SIGTERM stops everything within 8 seconds and leaves no process and no lock', async () => {
  const births = livingProcesses();
  expect(births.length).toBeGreaterThanOrEqual(6);
  // What a process of one word takes shows how busy the machine is.
  const end = async () => {
    npm.process.kill('SIGTERM');
    await npm.ended;
  };
  const { took_ms, reference_ms } = await besideReference(() => shell('true'), end);
  expect(took_ms).toBeLessThan(8_000 + 20 * reference_ms);
  expect(births.filter(isAlive)).toEqual([]);
  for (const name of ['demo.json', 'start.lock', 'processes.json', 'postgres/postmaster.pid']) {
    expect(existsSync(path.join(data_dir, name))).toBe(false);
  }
});

test('a second start finds the keys and the ledger of the first; a start after kill -9 finds them too, and the money of an unfinished walk', async () => {
  npm = npmStart(data_dir);
  const second = await demoOf(npm);
  expect(second.keys).toEqual(first.keys);
  // Left halfway: the money is still aside.
  await walkThroughTicket();
  const births = livingProcesses();
  // npm and, through it, npm start itself: the rest has to notice.
  process.kill(lockHolder().pid, 'SIGKILL');
  npm.process.kill('SIGKILL');
  await npm.ended;
  npm = npmStart(data_dir);
  const third = await demoOf(npm);
  expect(births.filter(isAlive)).toEqual([]);
  expect(third.organization_id).toBe(first.organization_id);
  const [chat = '', , ledger = ''] = printedCalls(npm.output());
  expect((await answerOf(chat)).choices[0].message.content).toContain('Say hello.');
  expect(typesOf(await shell(ledger))).toHaveLength(5);
  await walkThroughTicket();
});

test('a start whose npm was killed stops by itself', async () => {
  const births = livingProcesses();
  npm.process.kill('SIGKILL');
  await until(() => births.every((birth) => !isAlive(birth)));
  await until(() => !existsSync(path.join(data_dir, 'start.lock')));
});

test('a taken port is named with its variable, and nothing is left', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as { port: number };
  // The written configuration, named as one's own, is taken: its key's variable is set for it.
  const own = { GATEWAY_CONFIG: path.join(data_dir, 'gateway.yaml') };
  const refused = npmStart(data_dir, { GATEWAY_PORT: String(port), ...own });
  await refused.ended;
  taken.close();
  expect(refused.output()).toContain(`Port ${port} (GATEWAY_PORT) is in use.`);
  expect(refused.output()).toContain('PORTS=free npm start');
  expect(existsSync(path.join(data_dir, 'start.lock'))).toBe(false);
});

test('a gateway configuration with an unknown key stops the start and names the path', async () => {
  const file = path.join(scratch, 'gateway.yaml');
  await shell(`printf 'providers: {targets: [], speed: 1}' > ${file}`);
  const refused = npmStart(data_dir, { GATEWAY_CONFIG: file });
  await refused.ended;
  expect(refused.output()).toContain('providers.speed');
  expect(existsSync(path.join(data_dir, 'start.lock'))).toBe(false);
});

async function demoOf(started: Started): Promise<Demo> {
  let is_over = false;
  void started.ended.then(() => {
    is_over = true;
  });
  // The words follow the file; a killed start leaves its own file behind until the next one begins.
  await until(() => is_over || started.output().includes('Ctrl-C stops everything'), 300_000);
  if (is_over) throw new Error(started.output());
  return readDemo();
}

function readDemo(): Demo {
  return JSON.parse(readFileSync(demo_file, 'utf8'));
}

function lockHolder(): Birth {
  return JSON.parse(readFileSync(path.join(data_dir, 'start.lock'), 'utf8'));
}

/** Every process of the running product, npm start itself among them. */
function livingProcesses(): Birth[] {
  const { pids } = readDemo();
  const numbers = [lockHolder().pid, ...Object.values(pids).flat()];
  return numbers.flatMap((pid) => (pid === null ? [] : (birthOf(pid) ?? [])));
}

/** Runs the printed commands up to the answer of the call that hung. */
async function walkThroughTicket(): Promise<void> {
  const { api_url, keys } = readDemo();
  const [, , , drain = '', ask = '', approve = ''] = printedCalls(npm.output());
  const open = async () => {
    const answer = await fetch(`${api_url}/v1/cost-tickets?status=open`, {
      headers: { authorization: `Bearer ${keys.billing_admin}` },
    });
    return ((await answer.json()) as { total: number }).total;
  };
  expect((await answerOf(drain)).from).toMatchObject({
    owner_type: 'organization',
    balance: 0,
  });
  const held = shell(ask);
  await until(async () => (await open()) === 1);
  expect(await answerOf(approve)).toMatchObject({ note: 'go ahead' });
  expect(JSON.parse(await held).choices[0].message.content).toContain('Who pays for this?');
}
