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
