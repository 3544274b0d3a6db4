import {
  approve,
  deny,
  makeShort,
  openTicketWorld,
  show,
  type TicketWorld,
} from '../support/tickets';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});
afterAll(() => world.close());

test('of many verdicts at once one is recorded, and who is not heard is told to come again', async () => {
  const { call } = world;
  const short = await makeShort(world, 10);
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, index) => (index % 2 ? approve : deny)(call, short)),
  );
  for (const { status, headers } of answers)
    expect([200, 409, 503]).toContain(status === 503 && !headers['retry-after'] ? 500 : status);
  const { status } = await show(call, short);
  const verdicts = answers.filter((one) => one.status === 200).map(({ body }) => body.status);
  expect(verdicts.length).toBeGreaterThan(0);
  expect(new Set(verdicts)).toEqual(new Set([status]));
});
