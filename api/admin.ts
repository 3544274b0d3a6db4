import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ConfigError, loadConfig } from '../config';
import { openDatabase } from '../connections';
import { audit } from '../domain/audit';
import { isAppError } from '../domain/errors';
import type { Db } from '../domain/sql';
import * as tokens from '../domain/tokens';
import { migrate } from '../migrations';

const commands: Record<string, { words: string; run: Command }> = {
  bootstrap: {
    words:
      'print the value of a new platform admin key, named platform-admin unless a name is given',
    run: bootstrap,
  },
  audit: { words: 'prove the ledger; exits 1 when something is broken', run: runAudit },
};

type Command = (db: Db, args: string[]) => Promise<number>;

/** `npm run admin -- <command>`: what is done from a terminal, on the database itself. */
async function main([name, ...args]: string[]): Promise<number> {
  const command = commands[name ?? ''];
  if (command === undefined) {
    print(
      `Usage: npm run admin -- <command> [name]\n${Object.entries(commands)
        .map(([key, { words }]) => `  ${key}: ${words}`)
        .join('\n')}`,
    );
    return 2;
  }
  const db = openDatabase(databaseUrl(), 2, 'admin');
  try {
    return await command.run(db, args);
  } finally {
    await db.destroy();
  }
}

/** DATABASE_URL, else the database of the `npm start` that runs on DATA_DIR. */
function databaseUrl(): string {
  const { DATABASE_URL, DATA_DIR } = loadConfig('admin');
  if (DATABASE_URL !== undefined) return DATABASE_URL;
  try {
    return JSON.parse(readFileSync(path.join(DATA_DIR, 'demo.json'), 'utf8')).database_url;
  } catch {
    throw new ConfigError(
      `Set DATABASE_URL, or DATA_DIR to that of a running npm start (no demo.json in ${DATA_DIR}).`,
    );
  }
}

async function bootstrap(db: Db, [name = 'platform-admin']: string[]): Promise<number> {
  await migrate(db);
  const token = await issue(db, name).catch((error) => {
    const isTaken = isAppError(error) && error.code === 'already_exists';
    throw isTaken
      ? new ConfigError(`${error.message}\nAnother name: npm run admin -- bootstrap <name>`)
      : error;
  });
  print(token.key);
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

async function runAudit(db: Db): Promise<number> {
  const result = await audit(db);
  print(JSON.stringify(result, null, 2));
  return result.clean ? 0 : 1;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code;
  },
  (error: Error) => {
    const words =
      error instanceof ConfigError || isAppError(error)
        ? error.message
        : (error.stack ?? String(error));
    process.stderr.write(`${words}\n`);
    process.exitCode = 1;
  },
);
