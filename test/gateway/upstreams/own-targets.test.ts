import { parseSettings } from '../../../gateway/config/settings';
import { OwnTargets } from '../../../gateway/upstreams/own-targets';
import type { Target } from '../../../gateway/upstreams/target';

// What one key has at one target.

const target = { id: 'a', origin: 'http://127.0.0.1:9', wire: { key: 'bearer' } } as Target;
const settings = parseSettings(
  'providers: { targets: [{ id: a, kind: ollama, base_url: "http://127.0.0.1:9", models: [m] }] }',
);

function keyOf(provider_key_id: string, version = 1) {
  return { provider_key_id, version, current: () => 'sk', refuse: () => false };
}

test('another value of a key begins anew and leaves the connections to the calls that have them', async () => {
  const targets = new OwnTargets(settings);
  const first = targets.open(target, keyOf('k'));
  const next = targets.open(target, keyOf('k', 2));
  expect(next.pool).toBe(first.pool);
  expect(next.breaker).not.toBe(first.breaker);
  // A call that began before does not take it back.
  expect(targets.open(target, keyOf('k')).breaker).toBe(next.breaker);
  expect(targets.open(target, keyOf('other')).pool).not.toBe(first.pool);
  await targets.close();
});

test('of more keys than are kept the one that rested longest is forgotten, and its calls go on', async () => {
  const targets = new OwnTargets(settings);
  const first = targets.open(target, keyOf('first'));
  for (let n = 0; n < 1_000; n += 1) targets.open(target, keyOf(`k${n}`));
  expect(targets.open(target, keyOf('first')).breaker).not.toBe(first.breaker);
  const ask = first.pool.request({ origin: target.origin, path: '/', method: 'GET' });
  // Nobody listens there: it is not the pool that is closed.
  await expect(ask).rejects.toMatchObject({ code: expect.stringMatching(/ECONNREFUSED|UND_ERR/) });
  await expect(ask).rejects.not.toMatchObject({ code: 'UND_ERR_CLOSED' });
  await targets.close();
  await first.pool.close();
});
