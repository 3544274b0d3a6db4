import { chat, openWorld, post, type World } from '../../support/gateway';
import { openAtMinute } from '../../support/limits';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});
afterAll(() => world.close());

const path = '/v1/chat/completions';

test('calls that are refused for their key stay counted: one more than the limit of bad keys is 429', async () => {
  const { url } = await openAtMinute(world, {
    settings: { rate_limits: { ip: { enabled: true, rpm: 3 } } },
  });
  const statuses: number[] = [];
  for (let n = 0; n < 4; n += 1) {
    const { status } = await post(url + path, `svc_gk_${String(n).repeat(40)}`, chat('Hello'));
    statuses.push(status);
  }
  expect(statuses).toEqual([401, 401, 401, 429]);
  // A good key does not help: the address is what is limited.
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(429);
});

test('a call that fails ahead of the decision over all tiers says how its address stands', async () => {
  const { url } = await openAtMinute(world, {
    settings: { rate_limits: { ip: { enabled: true, rpm: 50 }, per_key: { rpm: 5 } } },
  });
  const answers = [
    await post(url + path, `svc_gk_${'0'.repeat(40)}`, chat('Hello')),
    await post(url + path, world.key, '{"model":'),
    await post(url + path, world.key, chat('Hello', { model: 'none' })),
    await post(url + path, world.key, chat('Hello')),
  ];
  expect(answers.map(({ status }) => status)).toEqual([401, 400, 404, 200]);
  const told = answers.map(({ headers }) => [
    headers['x-ratelimit-limit'],
    headers['x-ratelimit-remaining'],
  ]);
  // The key leaves less than the address, once it is counted.
  expect(told).toEqual([
    ['50', '49'],
    ['50', '48'],
    ['50', '47'],
    ['5', '4'],
  ]);
  for (const { headers } of answers) expect(headers['x-ratelimit-reset']).toMatch(/^\d{10,}$/);
});

test('a call counts once for its address, whatever tiers follow', async () => {
  const { url } = await openAtMinute(world, {
    settings: { rate_limits: { ip: { enabled: true, rpm: 2 }, per_key: { rpm: 100 } } },
  });
  const answers = [];
  for (let n = 0; n < 3; n += 1) answers.push(await post(url + path, world.key, chat('Hello')));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
  // The address leaves least, and the headers say what it has left.
  expect(answers.map(({ headers }) => headers['x-ratelimit-remaining'])).toEqual(['1', '0', '0']);
});
