import { randomUUID } from 'node:crypto';
import { chat, post } from '../../support/gateway';
import { openAtMinute } from '../../support/limits';
import { until } from '../../support/until';
import { openWire } from '../../support/wire';
import { ask, CHAT, keyOf, newOrg, open, per, statuses, world } from './asking';

test("a key's own limits stand in the place of those of every key, figure by figure", async () => {
  const org = await newOrg();
  const plain = await keyOf(org.org_id);
  const own = await keyOf(org.org_id, { rpm: 4 });
  const gateway = await open(per('per_key', { rpm: 2, max_parallel_requests: 5 }));
  expect(await statuses(gateway, 3, plain)).toEqual([200, 200, 429]);
  expect(await statuses(gateway, 5, own)).toEqual([200, 200, 200, 200, 429]);
  const refused = await ask(gateway, own);
  expect(refused).toMatchObject({ limit: 4, remaining: 0 });
  expect(refused.error).toMatchObject({ scope: 'per_key', limit_type: 'rpm' });
});

test('a gateway that limits nothing limits a key that has limits of its own', async () => {
  const org = await newOrg();
  const plain = await keyOf(org.org_id);
  const own = await keyOf(org.org_id, { rpm: 1 });
  const gateway = await open({});
  expect(await statuses(gateway, 3, plain)).toEqual([200, 200, 200]);
  expect(await statuses(gateway, 2, own)).toEqual([200, 429]);
  const answer = await post(gateway.url + CHAT, plain.key, chat('hi'));
  expect(Object.keys(answer.headers).filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
});

test('tokens and parallel requests of one key are its own too', async () => {
  const org = await newOrg();
  const tokens = await keyOf(org.org_id, { tpm: 5 });
  const parallel = await keyOf(org.org_id, { max_parallel_requests: 1 });
  const wire = await openWire(world.models_url);
  const gateway = await openAtMinute(world, {
    target: { base_url: `${wire.url}/v1` },
    settings: { token_rate_limit: { pre_request_estimate: true } },
  });
  const large = { ...tokens, body: chat('many words '.repeat(20)) };
  expect((await ask(gateway, large)).error).toMatchObject({ scope: 'per_key', limit_type: 'tpm' });
  wire.keepAfter('');
  const first = ask(gateway, parallel);
  await until(() => wire.answered() > 0);
  const second = await ask(gateway, parallel);
  wire.release();
  expect([second.status, second.error.limit_type]).toEqual([429, 'parallel']);
  expect((await first).status).toBe(200);
  await gateway.close();
  await wire.close();
});

test('a limit that is changed holds for the next gateway that asks', async () => {
  const org = await newOrg();
  const { key, key_id } = await keyOf(org.org_id, { rpm: 1 });
  const gateway = await open({});
  expect(await statuses(gateway, 2, { key })).toEqual([200, 429]);
  await world.api.db('tokens').where({ id: key_id }).update({ rpm: 3, name: randomUUID() });
  const other = await open({});
  expect(await statuses(other, 4, { key })).toEqual([200, 200, 200, 429]);
});
