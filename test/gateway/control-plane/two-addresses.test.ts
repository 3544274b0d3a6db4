import { chat, openWorld, post, type TestGateway, type World } from '../../support/gateway';
import { openWire, type Wire } from '../../support/wire';

let world: World;
let wires: [Wire, Wire];
let gateway: TestGateway;
const path = '/v1/chat/completions';

beforeAll(async () => {
  world = await openWorld();
  wires = [await openWire(world.api.url), await openWire(world.api.url)];
  gateway = await world.openGateway({ api_urls: wires.map(({ url }) => url) });
  expect((await post(gateway.url + path, world.key, chat('Hello'))).status).toBe(200);
});

afterAll(async () => {
  await gateway.close();
  await world.close();
  for (const wire of wires) await wire.close();
});

test.each([8, 7])(
  'one of two addresses hangs with %i calls on it: each is answered by the other',
  async (count) => {
    const [first, second] = wires;
    // The address in use is the one that answered last.
    const before = first.answered();
    expect((await post(gateway.url + path, world.key, chat('Hello'))).status).toBe(200);
    const used = first.answered() > before ? first : second;
    used.set('swallow');
    gateway.patience = 'repeats';
    const calls = Array.from({ length: count }, () =>
      post(gateway.url + path, world.key, chat('Hello')),
    );
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    used.set('pass');
    gateway.patience = 'always';
    expect(statuses).toEqual(Array(count).fill(200));
  },
);
