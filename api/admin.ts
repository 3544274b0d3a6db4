import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as auditEvents from '../domain/audit-events';
import { isAppError } from '../domain/errors';
import { audit } from '../domain/ledger/audit';
import * as tickets from '../domain/ledger/tickets';
import * as verdicts from '../domain/ledger/verdicts';
import * as outbox from '../domain/outbox';
import * as paymentEvents from '../domain/payments/events';
import * as steps from '../domain/payments/steps';
import * as members from '../domain/people/members';
import * as codes from '../domain/people/one-time-codes';
import * as tokens from '../domain/people/tokens';
import type { Db } from '../domain/sql';
import { migrate } from '../migrations';
import { ConfigError, loadConfig, temporalVariables } from '../runtime/config';
import { openDatabase } from '../runtime/database';
import { temporalAddress } from '../temporal/connection';
import { prepare } from '../temporal/prepare';
import { runExports } from './admin-exports';
import { runPrices } from './admin-prices';
import { runSecrets } from './admin-secrets';
import { runSetup } from './admin-setup';
import { runSpend } from './admin-spend';

type Row = { words: string } & ({ run: Command } | { runAlone: (args: string[]) => number });

const commands: Record<string, Row> = {
  bootstrap: {
    words:
      'print the value of a new platform admin key, named platform-admin unless a name is given',
    run: bootstrap,
  },
  'sign-in': {
    words:
      'print a one-time code for a person\'s session, good for five minutes: "sign-in <user_id> [org_id]"',
    run: runSignIn,
  },
  prepare: {
    words:
      "make what is missing in Temporal: namespace, search attributes, schedules; bring the schedules to this program's",
    run: runPrepare,
  },
  audit: { words: 'prove the ledger; exits 1 when something is broken', run: runAudit },
  tickets: {
    words:
      'list the open cost tickets; "tickets approve <id> [note]" credits what is missing, "tickets deny <id> [note]" refuses',
    run: runTickets,
  },
  payments: {
    words:
      'list what a person must look at: payments of another amount, stuck payments and refunds, webhooks that match no session',
    run: listPayments,
  },
  spend: {
    words:
      '"spend rebuild [org_id]" folds the ledger into spend anew, of one organization or of all; the old figures are read meanwhile',
    run: (db, args) => runSpend(db, args, print),
  },
  prices: {
    words:
      '"prices import" proposes prices from catalogs; diff, apply, undo, list and check go on from there',
    run: (db, args) => runPrices(db, args, print),
  },
  secrets: {
    words:
      '"secrets reseal" seals by the first key of SVC_SECRETS_KEY what another one of its keys has sealed',
    run: (db, args) => runSecrets(db, args, print),
  },
  setup: {
    words:
      'print what a coding agent is to be told of the gateway: "setup claude-code --gateway URL --model name"',
    // Developers run it on machines that reach no database.
    runAlone: (args) => runSetup(args, print),
  },
  outbox: {
    words: 'list the messages to Temporal that were given up; "outbox resend" sends them once more',
    run: runOutbox,
  },
  exports: {
    words:
      'list the newest exports with a bar of their parts; "exports <id>" follows one to its end',
    run: (db, args) => runExports(db, args, print),
  },
};

type Command = (db: Db, args: string[]) => Promise<number>;

/**
 * `npm run admin -- <command>`: commands that an operator runs in a terminal, on the database
 * itself.
 */
export async function main([name, ...args]: string[]): Promise<void> {
  const command = commands[name ?? ''];
  if (command === undefined) {
    print(
      `Usage: npm run admin -- <command>\n${Object.entries(commands)
        .map(([key, { words }]) => `  ${key}: ${words}`)
        .join('\n')}`,
    );
    process.exitCode = 2;
    return;
  }
  // A reader such as head may go before all is written.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  });
  if ('runAlone' in command) {
    process.exitCode = command.runAlone(args);
    return;
  }
  const db = openDatabase(databaseUrl(), 2, 'admin');
  try {
    process.exitCode = await command.run(db, args);
  } finally {
    await db.destroy();
  }
}

/** DATABASE_URL, else the database of the `npm start` that runs on DATA_DIR. */
function databaseUrl(): string {
  const { DATABASE_URL, DATA_DIR } = loadConfig('admin');
  const url = DATABASE_URL ?? demo()?.database_url;
  if (url !== undefined) return url;
  throw new ConfigError(
    `Set DATABASE_URL, or DATA_DIR to that of a running npm start (no demo.json in ${DATA_DIR}).`,
  );
}

/** What the `npm start` that runs on DATA_DIR says of itself; undefined if none runs. */
function demo(): { database_url: string; temporal_address: string } | undefined {
  try {
    const file = path.join(loadConfig('admin').DATA_DIR, 'demo.json');
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

async function bootstrap(db: Db, [name = 'platform-admin']: string[]): Promise<number> {
  await migrate(db);
  const token = await db
    .transaction(async (trx) => {
      await auditEvents.actAs(trx, { actor: 'terminal' });
      return issue(trx, name);
    })
    .catch((error) => {
      const isTaken = isAppError(error) && error.code === 'already_exists';
      throw isTaken
        ? new ConfigError(`${error.message}\nAnother name: npm run admin -- bootstrap <name>`)
        : error;
    });
  print(token.key);
  return 0;
}

async function runSignIn(db: Db, [user_id, named]: string[]): Promise<number> {
  if (user_id === undefined) throw new ConfigError('Usage: sign-in <user_id> [org_id].');
  const places = await members.organizationsOf(db, user_id);
  const found = named === undefined ? places : places.filter((org_id) => org_id === named);
  const [org_id, second] = found;
  if (org_id === undefined) throw new ConfigError(`${user_id} is no member of an organization.`);
  if (second !== undefined)
    throw new ConfigError(`${user_id} is in several organizations; name one: ${found.join(', ')}`);
  const { code } = await db.transaction(async (trx) => {
    await auditEvents.actAs(trx, { actor: 'terminal' });
    const by = { id: 'terminal', user_id: null, scopes: [] };
    return codes.create(trx, { purpose: 'session', org_id, user_id, by });
  });
  print(code);
  return 0;
}

function issue(db: Db, name: string) {
  return tokens.issue(db, {
    org_id: null,
    name,
    token_type: 'access',
    scopes: ['platform:admin'],
    allowed_models: null,
    user_id: null,
    team_id: null,
    agent_id: null,
    max_budget_nanos: null,
    expires_at: null,
    created_by: 'bootstrap',
  });
}

async function runPrepare(db: Db): Promise<number> {
  await migrate(db);
  const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE: namespace } = loadConfig('admin');
  const address = TEMPORAL_ADDRESS ?? demo()?.temporal_address;
  if (address === undefined)
    throw new ConfigError('Set TEMPORAL_ADDRESS, or DATA_DIR to that of a running npm start.');
  const to = temporalAddress({ ...temporalVariables(), TEMPORAL_ADDRESS: address });
  const count = await prepare(to, namespace, db).catch((error: Error) => {
    throw new ConfigError(`Temporal at ${address} could not be prepared: ${error.message}`);
  });
  print(`Temporal at ${address} has the namespace ${namespace}, its attributes and schedules.`);
  if (count > 0) print(`Its store was new; ${count} unfinished workflows start again.`);
  return 0;
}

async function runAudit(db: Db): Promise<number> {
  const result = await audit(db);
  print(JSON.stringify(result, null, 2));
  return result.clean ? 0 : 1;
}

async function runOutbox(db: Db, [verb]: string[]): Promise<number> {
  if (verb !== undefined && verb !== 'resend')
    throw new ConfigError('Usage: outbox, or outbox resend.');
  if (verb === 'resend') {
    print(`${await outbox.unpark(db)} messages are sent once more.`);
    return 0;
  }
  const { rows: given_up } = await outbox.list(db, 'parked', { page: 1, per_page: LISTED_MAX });
  for (const { id, workflow, workflow_id, parked_at, last_error } of given_up)
    print(`${id}  ${workflow} ${workflow_id}  since ${parked_at?.toISOString()}: ${last_error}`);
  if (given_up.length === 0) print('No message was given up.');
  return 0;
}

const verdict_of = { approve: 'approved', deny: 'denied' } as const;

async function runTickets(db: Db, [verb, id, ...words]: string[]): Promise<number> {
  if (verb === undefined) return listTickets(db);
  const verdict = verdict_of[verb as keyof typeof verdict_of];
  if (verdict === undefined || id === undefined) {
    throw new ConfigError(
      'Usage: tickets, tickets approve <id> [note], or tickets deny <id> [note].',
    );
  }
  const { org_id } = await tickets.get(db, id, null);
  await verdicts.decide(db, {
    ticket_id: id,
    org_id,
    verdict,
    by: 'terminal',
    is_platform: true,
    by_terminal: true,
    valid_until: await verdicts.verdictDeadline(db),
    ...(words.length > 0 ? { note: words.join(' ') } : {}),
  });
  print(await tickets.summary(db, id));
  return 0;
}

async function listPayments(db: Db, [verb]: string[]): Promise<number> {
  if (verb !== undefined)
    throw new ConfigError('Usage: payments. Decisions and refunds go through the API.');
  const sessions = await steps.needAttention(db, LISTED_MAX);
  for (const { id, line, why } of sessions) print(`${id}  ${line}: ${why}`);
  const events = await paymentEvents.unknown(db);
  for (const { provider, type, count, newest } of events)
    print(
      `${count} ${type} of ${provider} name no session of ours, the newest of ${newest.toISOString()}`,
    );
  if (sessions.length + events.length === 0) print('No payment needs a person.');
  return 0;
}

const LISTED_MAX = 50;

async function listTickets(db: Db): Promise<number> {
  const { lines, total } = await tickets.openLines(db, LISTED_MAX);
  for (const { id, line } of lines) print(`${id}  ${line}`);
  if (total === 0) print('No cost ticket is open.');
  else if (total > lines.length) print(`... and ${total - lines.length} more`);
  return 0;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}
