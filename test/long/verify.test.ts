import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { Client, Connection } from '@temporalio/client';
import { type Db, many, one } from '../../domain/sql';
import { openDatabase } from '../../runtime/database';
import { listen } from '../../runtime/listen';
import { root } from '../../runtime/root';
import type { Demo } from '../../sandbox/demo/facts';
import { NAMESPACE } from '../../sandbox/servers/temporal';
import { besideReference } from '../support/cpu';
import { scratchRoot } from '../support/scratch';
import { until } from '../support/until';
import { npmStart, type Started } from '../whole/npm-start';

const data_dir = mkdtempSync(path.join(scratchRoot(), 'svc-verify-'));
// PostgreSQL's system user must enter it if the tests run as root.
chmodSync(data_dir, 0o755);

let npm: Started;
let demo: Demo;
let db: Db & { destroy: () => Promise<void> };
const servers: Server[] = [];

beforeAll(async () => {
  npm = npmStart(data_dir, { GATEWAYS: '1' });
  const file = path.join(data_dir, 'demo.json');
  await until(() => existsSync(file), 300_000);
  demo = JSON.parse(readFileSync(file, 'utf8'));
  db = openDatabase(demo.database_url, 2, 'test');
});

afterAll(async () => {
  for (const server of servers) server.close();
  await db?.destroy();
  npm.process.kill('SIGTERM');
  await npm.ended;
  rmSync(data_dir, { recursive: true, force: true });
});

interface Verified {
  code: number | null;
  ok: boolean;
  /** Of what failed: the check and its words. */
  failed: [string, string][];
}

async function verify(args: string[] = [], env: Record<string, string> = {}): Promise<Verified> {
  const all = ['run.cjs', 'api/verify/main.ts', ...args, '--json'];
  const child = spawn(process.execPath, all, {
    cwd: root,
    env: { ...process.env, DATA_DIR: data_dir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [out, words, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number]>,
  ]);
  if (out === '') throw new Error(words);
  const { ok, checks } = JSON.parse(out);
  const failed = checks.filter((one: { status: string }) => one.status === 'failed');
  return {
    code,
    ok,
    failed: failed.map(({ check, words }: { check: string; words: string }) => [check, words]),
  };
}

/** The arguments and variables with which a terminal elsewhere names the deployment. */
const elsewhere = (...more: string[]): [string[], Record<string, string>] => [
  [demo.api_url, demo.gateway_url, ...more],
  {
    VERIFY_PLATFORM_KEY: demo.keys.platform_admin,
    VERIFY_GATEWAY_KEY: demo.keys.gateway,
  },
];

/** A server that says of itself what it is told to. */
async function pretender(answers: Record<string, [number, object]>): Promise<string> {
  const server = createServer((req, res) => {
    const [status, body] = answers[req.url ?? ''] ?? [404, {}];
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  servers.push(server);
  return `http://127.0.0.1:${await listen(server, 0)}`;
}

const health = (version: string): [number, object] => [200, { status: 'ok', version }];

test('a running npm start is well, within a minute, and nothing of the look is left', async () => {
  const look = () => fetch(`${demo.api_url}/health`).then((answer) => answer.text());
  const { result, took_ms, reference_ms } = await besideReference(look, () => verify());
  expect(result).toEqual({ code: 0, ok: true, failed: [] });
  // A minute, or what a hundred looks take if the machine is slow.
  expect(took_ms).toBeLessThan(Math.max(60_000, 100 * reference_ms));
  expect(await verify(...elsewhere())).toEqual({ code: 0, ok: true, failed: [] });
  const keys = "select 1 from tokens where name like 'verify %' and revoked_at is null";
  expect(await many(db, keys)).toEqual([]);
});

type Fault = [name: string, expected: [string, RegExp], seed: () => Promise<Verified>];

/** What a change of the database leads to; it is undone. */
async function changed(statement: string, undo: string): Promise<Verified> {
  await many(db, statement);
  try {
    return await verify();
  } finally {
    await many(db, undo);
  }
}

/** A gateway that last reported so long ago. */
const silentFor = (interval: string) =>
  `insert into gateways (id, host, software_version, config_hash, started_at, seen_at)
   values ('gone', 'elsewhere', '1.5.0', 'any', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '${interval}')`;

const faults: Fault[] = [
  [
    'an address where nothing listens',
    ['health', /127\.0\.0\.1:1\/svc\/health has no answer/],
    async () => verify(...elsewhere('http://127.0.0.1:1')),
  ],
  [
    'an address of something else',
    ['health', /is no API, gateway or console/],
    async () => verify(...elsewhere(demo.sandbox.models_url)),
  ],
  [
    'a process that is not ready',
    ['ready', /\/readyz answers 503: It is stopping\./],
    async () => {
      const stopping: [number, object] = [503, { error: { message: 'It is stopping.' } }];
      const url = await pretender({ '/svc/health': health('1.5.0'), '/readyz': stopping });
      return verify(...elsewhere(url));
    },
  ],
  [
    'a gateway that is too old',
    ['versions', /is 1\.3\.9; API 1\.5\.0 works with 1\.4 and 1\.5\./],
    async () => {
      const url = await pretender({ '/svc/health': health('1.3.9'), '/readyz': [200, {}] });
      return verify(...elsewhere(url));
    },
  ],
  [
    'an upgrade that was left halfway',
    ['versions', /APIs are of two versions, 1\.5\.0 and 1\.4\.0/],
    async () => {
      const url = await pretender({ '/health': health('1.4.0'), '/readyz': [200, {}] });
      return verify(...elsewhere(url));
    },
  ],
  [
    'a migration that is missing',
    ['schema', /^1 migration is pending, the first is 0059-owners-of-wallets\.sql/],
    async () =>
      changed(
        `update knex_migrations set name = name || '.gone' where name = '0059-owners-of-wallets.sql'`,
        `update knex_migrations set name = replace(name, '.gone', '')`,
      ),
  ],
  [
    'a schedule that a person paused',
    ['workers', /^The schedule audit is paused\. Unpause it in the Temporal page\.$/],
    async () => {
      const connection = await Connection.connect({ address: demo.temporal_address });
      const schedule = new Client({ connection, namespace: NAMESPACE }).schedule;
      await schedule.getHandle('audit').pause();
      try {
        return await verify();
      } finally {
        await schedule.getHandle('audit').unpause();
        await connection.close();
      }
    },
  ],
  [
    'a message that was given up',
    ['outbox', /^1 message to Temporal was given up/],
    async () =>
      changed(
        `insert into outbox (org_id, workflow, workflow_id, input, parked_at, attempts)
         values ('org_1', 'costTicket', 'tkt_verify', '{}', clock_timestamp(), 20)`,
        `delete from outbox where workflow_id = 'tkt_verify'`,
      ),
  ],
  [
    'a gateway of a version that does not fit',
    ['fleet', /is unsupported/],
    async () =>
      changed(
        `insert into gateways (id, host, software_version, config_hash, started_at)
         values ('old', 'elsewhere', '1.2.0', 'any', clock_timestamp())`,
        `delete from gateways where id = 'old'`,
      ),
  ],
  [
    'a gateway that says nothing any more',
    ['fleet', /gone on elsewhere is silent: no report since /],
    async () => changed(silentFor('4 minutes'), `delete from gateways where id = 'gone'`),
  ],
  [
    'a folder of exports that is not the one of the worker',
    ['export', /answers 503/],
    async () => {
      const mark = path.join(data_dir, 'exports', '.svc-exports');
      renameSync(mark, `${mark}.gone`);
      try {
        return await verify();
      } finally {
        renameSync(`${mark}.gone`, mark);
      }
    },
  ],
  [
    'a policy that lets pass what it must block',
    ['policy', /answers 200 to "good morning", which policy must block with 409/],
    async () => verify(['--blocked', 'good morning']),
  ],
  [
    'a ledger that is broken',
    ['audit', /^The ledger is broken in \d+ places/],
    async () => {
      const { wallet_id } = await one<{ wallet_id: string }>(
        db,
        `select id as wallet_id from wallets where org_id = '${demo.organization_id}' and owner_type = 'organization'`,
      );
      return changed(
        `update wallets set balance_nanos = balance_nanos + 1 where id = '${wallet_id}'`,
        `update wallets set balance_nanos = balance_nanos - 1 where id = '${wallet_id}'`,
      );
    },
  ],
  [
    'a key of nobody',
    ['workers', /workers\/status answers 401/],
    async () => verify([], { VERIFY_PLATFORM_KEY: 'svc_ak_of_nobody' }),
  ],
  [
    'an access key that is no platform admin',
    ['keys', /^VERIFY_PLATFORM_KEY must be an access key with platform:admin: /],
    async () => verify([], { VERIFY_PLATFORM_KEY: demo.keys.billing_admin }),
  ],
  [
    'a gateway key of nobody',
    ['keys', /^VERIFY_GATEWAY_KEY must be a gateway key of this API: .* answers 401: /],
    async () => verify([], { VERIFY_GATEWAY_KEY: 'svc_gk_of_nobody' }),
  ],
];

// Before the faults: one of them leaves the ledger broken.
test('a gateway that has said nothing for more than five minutes is gone, and no fault', async () => {
  const undo = `delete from gateways where id = 'gone'`;
  expect(await changed(silentFor('6 minutes'), undo)).toEqual({ code: 0, ok: true, failed: [] });
});

test.each(faults)('%s is red, with a sentence', async (_, [check, words], seed) => {
  const { code, ok, failed } = await seed();
  expect([code, ok]).toEqual([1, false]);
  expect(failed).toContainEqual([check, expect.stringMatching(words)]);
});

test('without an address and without npm start the usage is said', async () => {
  const nowhere = { DATA_DIR: path.join(data_dir, 'nowhere') };
  await expect(verify([], nowhere)).rejects.toThrow(
    /^No npm start runs on .*\nUsage: npm run verify/,
  );
});

test('what is wrong with the command is said before the usage', async () => {
  const [addresses, keys] = elsewhere();
  const { VERIFY_GATEWAY_KEY: _, ...platform } = keys;
  await expect(verify(['nonsense'], keys)).rejects.toThrow(/^nonsense is no address/);
  await expect(verify(addresses, platform)).rejects.toThrow(/^VERIFY_GATEWAY_KEY is not set\./);
  await expect(verify(addresses, {})).rejects.toThrow(/^VERIFY_PLATFORM_KEY is not set\./);
});
