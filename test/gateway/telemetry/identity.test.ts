import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import * as members from '../../../domain/people/members';
import { listen } from '../../../runtime/listen';
import { chat, openWorld, post, type World } from '../../support/gateway';
import { openReceiver, type ReceivedSpan, type Receiver } from '../../support/telemetry/otlp';
import { createTrace } from '../../support/telemetry/traces';
import { until } from '../../support/until';
import { named, otlp } from './traces';

const route = '/v1/chat/completions';

let world: World;
let receiver: Receiver;

beforeAll(async () => {
  world = await openWorld();
  receiver = await openReceiver();
  process.env.TEST_OTLP = receiver.url;
});
afterAll(async () => {
  await world.close();
  await receiver.close();
});

/** The spans of one trace once the gateway's own has come, which ends last. */
async function traceOf(of: { trace_id: string }, spans = 3): Promise<ReceivedSpan[]> {
  const found = () => receiver.spans.filter(({ trace_id }) => trace_id === of.trace_id);
  await until(() => found().length >= spans);
  return found();
}

test('the proof of identity stands on every span, and the identity only where it cannot be forged', async () => {
  const { org_id } = world.org;
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256', use: 'sig' }];
  const jwks = createServer((_, answer) => void answer.end(JSON.stringify({ keys })));
  const jwks_url = `http://127.0.0.1:${await listen(jwks, 0)}/jwks.json`;
  const told = { issuer: 'https://id.example', audience: 'svc' };
  const user_id = await userOf(org_id);
  const jwt = await new SignJWT({})
    .setProtectedHeader({ alg: 'ES256', kid: 'k' })
    .setSubject(user_id)
    .setIssuer(told.issuer)
    .setAudience(told.audience)
    .setExpirationTime('5m')
    .sign(privateKey);
  const modes = [
    { identity: { mode: 'header_soft', org_id }, key: undefined },
    { identity: { mode: 'signed_assertion', org_id, jwks_url, ...told }, key: jwt },
    { identity: { mode: 'gateway_key' }, key: world.key },
  ];
  const check = async ({ identity, key }: (typeof modes)[number]) => {
    const settings = { identity, policies: { chain: ['dlp-filter'] }, ...dlp, ...otlp() };
    const gateway = await world.openGateway({ settings });
    const [good, bad] = [createTrace(), createTrace()];
    const user = { 'x-user-id': 'somebody' };
    const ok = await post(gateway.url + route, key, chat('Hello'), { ...user, ...good.headers });
    expect([identity.mode, ok.status]).toEqual([identity.mode, 200]);
    const none = { ...bad.headers, 'x-user-id': 'x'.repeat(300) };
    expect((await post(gateway.url + route, 'wrong', chat('Hello'), none)).status).toBeGreaterThan(
      400,
    );
    const spans = [...(await traceOf(good, 3)), ...(await traceOf(bad, 1))];
    expect(spans.map(({ name }) => name).sort()).toEqual(
      [`POST ${route}`, `POST ${route}`, 'reserve', 'upstream'].sort(),
    );
    for (const { attributes } of spans) {
      expect(attributes.identity_proof_method).toBe(identity.mode);
      const members = Object.keys(attributes).filter((name) => name.startsWith('identity_context'));
      if (identity.mode === 'header_soft') expect(members).toEqual([]);
    }
    const expected = { header_soft: undefined, signed_assertion: user_id, gateway_key: undefined };
    expect(named(spans, `POST ${route}`).attributes['identity_context.user_id']).toBe(
      expected[identity.mode as keyof typeof expected],
    );
  };
  await Promise.all(modes.map(check));
  jwks.closeAllConnections();
  jwks.close();
});

const dlp = { policy: { 'dlp-filter': { blocked_terms: ['xyzzy'] } } };

async function userOf(org_id: string): Promise<string> {
  const person = {
    email: `${randomUUID()}@example.test`,
    name: 'A person',
    role: 'member',
  } as const;
  return (await members.add(world.api.db, org_id, person, true)).user_id;
}

test('no prompt, answer, key or token is in any byte that is exported', async () => {
  const settings = {
    ...otlp({ export_rate_limit_metrics: true }),
    policies: { chain: ['dlp-filter'] },
    ...dlp,
  };
  const gateway = await world.openGateway({ settings });
  const client = createTrace();
  const words = 'The moon is made of teal cheese';
  const ask = (content: string, key = world.key) =>
    post(gateway.url + route, key, chat(content), { ...client.headers, cookie: 'session=crumbs' });
  expect((await ask(words)).status).toBe(200);
  expect((await ask(`${words} xyzzy`)).status).toBe(409);
  expect((await ask(`${words} [[fault:error status=500]]`)).status).toBeGreaterThanOrEqual(500);
  expect((await ask(words, 'svc_gk_notavalidkeyatall00000')).status).toBe(401);
  await traceOf(client, 7);
  await gateway.close();
  const all = Buffer.concat(receiver.bytes).toString('latin1');
  expect(all).toContain('gpt-4o-mini');
  for (const secret of [
    words,
    'teal cheese',
    'xyzzy',
    'crumbs',
    'upstream-secret',
    world.control_plane_token,
    world.key,
    'svc_gk_',
    'svc_ak_',
    'Hello',
  ]) {
    expect([secret, all.includes(secret)]).toEqual([secret, false]);
  }
});
