import { randomBytes, randomUUID, X509Certificate } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { createApp, type Given } from '../../api/app';
import { openConfigWatch } from '../../api/http/config-watch';
import { openRefused } from '../../api/http/refused';
import type { Route } from '../../api/http/route';
import { openBatches } from '../../api/ledger/batches';
import { openWaiters } from '../../api/ledger/waiters';
import { refusalsOf } from '../../api/openapi/refusals';
import { routes } from '../../api/table';
import { audit } from '../../domain/ledger/audit';
import * as members from '../../domain/people/members';
import * as organizations from '../../domain/people/organizations';
import { type Role, rolePermissions } from '../../domain/people/roles';
import * as teams from '../../domain/people/teams';
import { createSecrets } from '../../domain/secrets';
import type { Db } from '../../domain/sql';
import { listen } from '../../runtime/listen';
import { createLog, type Logger } from '../../runtime/log';
import { processAuthority } from '../../sandbox/payments/a/authority';
import { openTemporal } from '../../temporal/client';
import { openTestDatabase } from './database';
import { makeKey } from './keys';

/** The key that the tests' servers seal and sign with. */
export const secrets_key = randomBytes(32).toString('base64');
export const secrets = createSecrets(secrets_key);

interface Call {
  key?: string | undefined;
  /** An object is sent as JSON; text as it stands. */
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  // biome-ignore lint/suspicious/noExplicitAny: answers are JSON of many shapes; the expectations are their types.
  body: any;
  text: string;
}

export type CallApi = (method: string, path: string, call?: Call) => Promise<Answer>;

export interface TestApi {
  db: Db;
  url: string;
  database_url: string;
  call: CallApi;
  /** Proves the ledger, then closes everything. */
  close: () => Promise<void>;
}

type Parts = Partial<Given> & { log?: Logger };

/** The control plane on a free port over a database of its own. */
export async function startApi(more: Parts = {}): Promise<TestApi> {
  const { db, url: database_url, close: dropDatabase } = await openTestDatabase();
  const served = await serve({ db, ...more });
  const close = async () => {
    await served.close();
    const { broken } = await audit(db);
    await dropDatabase();
    expect(broken).toEqual([]);
  };
  return { ...served, db, database_url, close };
}

/** Where the tests' payment providers are. */
export const payment_hosts = ['127.0.0.1'];

/** The control plane over the given database; port 0 is a free one. */
export async function serve(
  { db, log = createLog('test', 'silent'), ...connections }: Parts & { db: Db },
  temporal_address = process.env.TEST_TEMPORAL_ADDRESS as string,
  port = 0,
) {
  const database_url: string = db.client.config.connection.connectionString;
  const batches = openBatches(db, log);
  const waiters = openWaiters({ db, batches, database_url, log });
  const config_watch = openConfigWatch({ db, database_url, log });
  const refused_requests = openRefused(db, log);
  const temporal = openTemporal({ address: temporal_address, namespace: 'svc' }, db);
  const isDraining = () => false;
  const payment_authorities = [new X509Certificate((await processAuthority()).cert)];
  const pools = { people: db, reads: db, machine: db };
  const watching = { config_watch, refused_requests };
  const made = { pools, batches, waiters, ...watching, temporal, secrets, isDraining };
  const server = createServer(
    createApp({ ...made, payment_hosts, payment_authorities, ...connections }, log).callback(),
  );
  const url = `http://127.0.0.1:${await listen(server, port)}`;
  const close = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    await Promise.all([waiters.close(), config_watch.close()]);
    // Answers that were just given still leave.
    await sleep(20);
    server.closeAllConnections();
    await closed;
    await batches.close();
    await refused_requests.close();
    await temporal.close();
  };
  return { url, call: caller(url), close };
}

export function caller(url: string): CallApi {
  return async (method, path, { key, body, headers } = {}) => {
    const answer = await request(`${url}${path}`, {
      method: method.toUpperCase() as 'GET',
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body:
        body === undefined || typeof body === 'string'
          ? ((body as string) ?? null)
          : JSON.stringify(body),
    });
    const text = await answer.body.text();
    const isJson = String(answer.headers['content-type']).startsWith('application/json');
    const read = isJson ? JSON.parse(text) : undefined;
    const is_csv = String(answer.headers['content-type']).startsWith('text/csv');
    if (answer.statusCode < 300 && !is_csv) expectDescribed(method, path, read);
    if (answer.statusCode >= 400) expectListed(method, path, answer.statusCode, read);
    return { status: answer.statusCode, headers: answer.headers, text, body: read };
  };
}

/** Every good answer of every test fits the OpenAPI document. */
function expectDescribed(method: string, path: string, body: unknown): void {
  const issues = rowOf(method, path)?.answer?.safeParse(body).error?.issues ?? [];
  expect({ method, path, issues }).toEqual({ method, path, issues: [] });
}

/** So does every refusal: api/openapi/refusals.ts lists it for its route. */
function expectListed(method: string, path: string, status: number, body: unknown): void {
  const row = rowOf(method, path);
  if (row === undefined) return;
  const code = (body as Answer['body'])?.error?.code;
  const listed = refusalsOf(row).map((one) => `${one.status} ${one.code}`);
  expect([`${row.method} ${row.path}`, listed]).toEqual([
    expect.anything(),
    expect.arrayContaining([`${status} ${code}`]),
  ]);
}

function rowOf(method: string, path: string): Route | undefined {
  const { pathname } = new URL(path, 'http://localhost');
  const parts = pathname.split('/');
  return routes.find(
    (candidate) =>
      candidate.method === method.toLowerCase() &&
      candidate.path.split('/').length === parts.length &&
      candidate.path.split('/').every((part, index) => part[0] === ':' || part === parts[index]),
  );
}

export interface Tenant {
  org_id: string;
  wallet_id: string;
  /** A key of no user with every scope of the organization. */
  owner_key: string;
  billing_key: string;
  member_id: string;
  member_key: string;
  team_id: string;
  agent_id: string;
}

/** An organization with a member, who is in its one team, an agent, and keys. */
export async function makeTenant(db: Db, currency = 'USD'): Promise<Tenant> {
  const tag = randomUUID().slice(0, 8);
  const { id: org_id } = await organizations.create(db, { name: `Org ${tag}`, currency });
  const person = { name: `Member ${tag}`, role: 'member' as const };
  const { user_id: member_id } = await members.add(db, org_id, person, true);
  const { id: team_id } = await organizations.createTeam(db, org_id, `Team ${tag}`);
  await teams.add(db, { org_id, team_id, user_id: member_id });
  const { id: agent_id } = await organizations.createAgent(db, org_id, `Agent ${tag}`);
  const [wallet] = await db('wallets').where({ org_id, owner_type: 'organization' }).select('id');
  return {
    org_id,
    wallet_id: wallet.id,
    owner_key: await makeKey(db, org_id, { scopes: rolePermissions.owner }),
    billing_key: await makeKey(db, org_id, { scopes: ['org:billing'] }),
    member_id,
    member_key: await makeKey(db, org_id, { user_id: member_id }),
    team_id,
    agent_id,
  };
}

/** A member of a tenant. */
export interface Person {
  user_id: string;
  /** An access key that stands for them, with all that their role may do. */
  key: string;
  /** The path of their membership. */
  at: string;
}

/** Takes a person into a tenant's organization. */
export async function makePerson(
  { db, call }: { db: Db; call: CallApi },
  { org_id, owner_key }: Tenant,
  role: Role,
): Promise<Person> {
  const members = `/v1/organizations/${org_id}/members`;
  const body = { name: `Ann ${randomUUID()}`, role };
  const { user_id } = (await call('post', members, { key: owner_key, body })).body;
  const key = await makeKey(db, org_id, { user_id, scopes: rolePermissions[role] });
  return { user_id, key, at: `${members}/${user_id}` };
}

/** Asks for a key, an access key without scopes by default. */
export function issueBy(call: CallApi, key: string, more: object = {}): Promise<Answer> {
  const body = { name: randomUUID(), token_type: 'access', ...more };
  return call('post', '/v1/tokens', { key, body });
}

/** The parts of an error answer that callers decide by. */
export function refusal({ status, body }: Answer) {
  return { status, code: body?.error?.code, param: body?.error?.param };
}
