import OpenAI from 'openai';
import * as budgets from '../../domain/ledger/budgets';
import * as organizations from '../../domain/people/organizations';
import { rolePermissions } from '../../domain/people/roles';
import { many } from '../../domain/sql';
import { type CallApi, serve } from '../support/api';
import { chat, lastCharge, openWorld, type TestGateway, type World } from '../support/gateway';
import {
  gateway_audience,
  type IdentityProvider,
  issuerFor,
  startIdentityProvider,
} from '../support/identity/provider';
import { makeKey, platformKey } from '../support/keys';
import { repeated, until } from '../support/until';
import { openWorker, type TestWorker } from '../support/worker';

// The whole way of a person whom nobody has entered: from their first sign-in to the call that
// their team's admin pays for.

let world: World;
let idp: IdentityProvider;
let worker: TestWorker;
let approvers: Awaited<ReturnType<typeof serve>>;
let call: CallApi;
let gateway: TestGateway;
let team_id: string;
let issuer_id: string;
let owner_key: string;

const LIMIT_NANOS = 100_000n;

beforeAll(async () => {
  world = await openWorld();
  const { org_id } = world.org;
  const { db } = world.api;
  team_id = (await organizations.createTeam(db, org_id, 'Research')).id;
  idp = await startIdentityProvider(team_id);
  worker = await openWorker(db);
  approvers = await serve({ db, temporal: worker.temporal });
  ({ call } = approvers);
  owner_key = await makeKey(db, org_id, { scopes: rolePermissions.owner });
  issuer_id = (
    await did(
      'post',
      '/v1/admin/issuers',
      await platformKey(db),
      issuerFor(idp, { org_id, team_id }),
    )
  ).id;
  await did('put', `/v1/organizations/${org_id}/member-keys`, owner_key, { enabled: true });
  await did('post', '/v1/wallets/allocate', owner_key, { team_id, amount: 10 });
  gateway = await world.openGateway({
    settings: {
      cost_tickets: { hold_ms: 300_000 },
      identity: {
        modes: ['gateway_key', 'signed_assertion'],
        org_id,
        issuer: idp.issuer,
        audience: gateway_audience,
        jwks_url: idp.jwks_url,
        subject: 'bound',
      },
    },
  });
});

afterAll(async () => {
  await approvers.close();
  await worker.close();
  await idp.close();
  await world.close();
});

/** The body of an answer that is no refusal; what Temporal keeps waiting is asked for again. */
async function did(
  method: 'get' | 'post' | 'put',
  path: string,
  key: string | undefined,
  body?: object,
) {
  const answer = await repeated(() => call(method, path, { key, ...(body ? { body } : {}) }));
  expect({ path, refused: answer.status < 300 ? null : answer }).toEqual({ path, refused: null });
  return answer.body;
}

async function signIn(login: string): Promise<{ user_id: string; key: string }> {
  return did('post', '/v1/sessions', undefined, { issuer_id, ...(await idp.authorize(login)) });
}

async function waiting(): Promise<number> {
  const rows = await many(
    world.api.db,
    'select 1 from ticket_waiters where org_id = :org_id and answer is null and until > clock_timestamp()',
    { org_id: world.org.org_id },
  );
  return rows.length;
}

/** One answer by the SDK as it is. */
async function ask(apiKey: string, words: string, max_tokens: number): Promise<string> {
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey });
  const answer = await client.chat.completions.create(chat(words, { max_tokens }) as never);
  return (answer as OpenAI.ChatCompletion).choices[0]?.message.content ?? '';
}

test('a person whom nobody has entered signs in, makes a key, calls, runs into their budget, and is let through by the admin of their team', async () => {
  const { org_id } = world.org;
  const { db } = world.api;
  const nina = await signIn('nina');
  const lena = await signIn('lena');
  const me = await did('get', '/v1/me', nina.key);
  expect(me.memberships).toMatchObject([
    { org_id, role: 'member', teams: [{ team_id, name: 'Research', role: 'member' }] },
  ]);
  const own = await did('post', '/v1/me/keys', nina.key, { name: 'mine', team_id });
  const budget = await did('post', '/v1/budgets', owner_key, {
    ...{ owner_type: 'user', owner_id: nina.user_id, window: 'month', on_exceed: 'ticket' },
    limit: Number(LIMIT_NANOS) / 1e9,
  });

  expect(await ask(own.key, 'by my key', 64)).toBeTruthy();
  await lastCharge(world, org_id);
  const { access_token } = await idp.tokens('nina');
  expect(await ask(access_token, 'by my token', 64)).toBeTruthy();
  await lastCharge(world, org_id);
  const before = await budgets.get(db, org_id, budget.id);
  expect([before.spent_nanos > 0n, before.held_nanos]).toEqual([true, 0n]);

  const answer = ask(own.key, 'beyond my month', 1_000);
  await until(async () => (await waiting()) === 1);
  const { tickets } = await did('get', '/v1/cost-tickets?status=open', lena.key);
  expect(tickets).toMatchObject([
    { user_id: nina.user_id, team_id, cause: 'budget', shortfall: 0, budget: { id: budget.id } },
  ]);
  const [{ id, budget: short }] = tickets;
  await did('post', `/v1/cost-tickets/${id}/approve`, lena.key, {});
  expect(await answer).toBeTruthy();

  const charged = await lastCharge(world, org_id);
  const after = await budgets.get(db, org_id, budget.id);
  expect(after.raised_nanos).toBe(before.spent_nanos + charged.held_nanos - LIMIT_NANOS);
  expect(short.missing).toBe(Number(after.raised_nanos) / 1e9);
  expect(after.spent_nanos).toBe(before.spent_nanos + charged.actual_cost_nanos);
  expect(
    await many(db, 'select distinct user_id, team_id from reservations where org_id = :org_id', {
      org_id,
    }),
  ).toEqual([{ user_id: nina.user_id, team_id }]);
});
