import { adopt } from '../../../gateway/adopt';
import { openSnapshot } from '../../../gateway/call/snapshot';
import { parseSettings } from '../../../gateway/config/settings';
import { chat, post } from '../../support/gateway';
import { platformKey } from '../../support/keys';
import { everyRow } from '../../support/rows';
import {
  ask,
  bad,
  bring,
  keysSeen,
  lines,
  log,
  makeOwner,
  PLATFORM,
  secret,
  world,
} from './owners';

// Keys of the platform that lie sealed in the control plane, and are replaced while gateways run.

const auth = (key_sealed: string) => ({ api_key_env: undefined, auth: { key_sealed } });

test('a target is asked by the key that it names, and by its next value once the old one is refused', async () => {
  const admin = await platformKey(world.api.db);
  const call = (method: string, path: string, body: object) =>
    world.api.call(method, `/v1/provider-keys${path}`, { key: admin, body });
  const old = bad(401, 'platform');
  const { id } = (await call('post', '', { name: 'openai-main', key: old })).body;
  const { url } = await world.openGateway({ target: auth('openai-main'), log });
  const owner = await makeOwner();
  // A client is told nothing of the account of the platform.
  const refused = await ask(owner, chat('Hello'), url);
  expect([refused.status, refused.text.includes('sk-')]).toEqual([502, false]);
  await keysSeen();
  expect((await call('post', `/${id}/rotate`, { key: secret('next') })).status).toBe(200);
  // A gateway that was refused asks anew within ten seconds, another one at once.
  const next = await world.openGateway({ target: auth('openai-main'), log });
  expect((await ask(owner, chat('Hello', { stream: true }), next.url)).status).toBe(200);
  expect(await keysSeen()).toEqual([secret('next')]);
  const again = bad(401, 'late');
  await call('post', `/${id}/rotate`, { key: again });
  expect((await ask(owner, chat('Hello'), next.url)).status).toBe(200);
  const rows = await everyRow(world.api.db);
  for (const key of [old, secret('next'), again]) {
    expect(rows.includes(key)).toBe(false);
    expect(lines.some((line) => line.includes(key))).toBe(false);
  }
});

test('a name that is none fails its target alone, in words for the operator', async () => {
  const { url } = await world.openGateway({ target: auth('nowhere'), log });
  const owner = await makeOwner();
  expect((await ask(owner, chat('Hello'), url)).status).toBe(502);
  expect(lines.join('')).toContain('There is no key of the platform called nowhere.');
  const body = {
    model: 'claude-sonnet-4-5',
    max_tokens: 9,
    messages: [{ role: 'user', content: 'Hi' }],
  };
  expect((await post(`${url}/v1/messages`, owner.key, body)).status).toBe(200);
});

test('a target names one key, by a name that can be one', () => {
  const parse = (given: object) => () => {
    const target = { id: 'a', kind: 'openai', models: ['gpt-4o'], auth: given };
    return parseSettings(JSON.stringify({ providers: { targets: [target] } }));
  };
  expect(parse({ key_sealed: 'openai-main' })).not.toThrow();
  expect(parse({ key_sealed: 'openai main' })).toThrow('auth.key_sealed');
  expect(parse({ key_sealed: 'a', key_env: 'B' })).toThrow('names 2 ways');
});

test('an own key is sent to no target that it may not go to', async () => {
  const { gateway, url } = await world.openGateway({ log });
  const { settings } = gateway.snapshot;
  await adopt(gateway, openSnapshot(settings, { ...gateway, takesOwnKeys: () => false }));
  const owner = await makeOwner();
  await bring(owner, { key: secret('closed'), own_keys: 'first' });
  await keysSeen();
  expect((await ask(owner, chat('Hello'), url)).status).toBe(200);
  expect(await keysSeen()).toEqual([PLATFORM]);
  const alone = await makeOwner();
  await bring(alone, { key: secret('closed-only'), own_keys: 'only' });
  expect((await ask(alone, chat('Hello'), url)).status).toBe(424);
  expect(await keysSeen()).toEqual([]);
});
