import { readFileSync } from 'node:fs';
import path from 'node:path';
import * as tickets from '../../domain/ledger/tickets';
import { root } from '../../runtime/root';
import {
  approve,
  deny,
  makeShort,
  openTicketWorld,
  redeem,
  type TicketWorld,
} from '../support/tickets';

let world: TicketWorld;

beforeAll(async () => {
  world = await openTicketWorld();
});

afterAll(() => world.close());

test("an operator's line says who decided, and that a call has redeemed what was approved", async () => {
  const { db, call, machine } = world;
  const [yes, no] = [await makeShort(world, 10), await makeShort(world, 10)];
  const end = async ({ ticket_id }: typeof yes) =>
    (await tickets.summary(db, ticket_id)).replace(/^.*, asked by Org [^,]*/, '');
  expect(await end(yes)).toMatch(/^, open until \d{4}-\d\d-\d\d \d\d:\d\d UTC$/);
  await approve(call, yes, { note: 'go ahead' });
  const decided = await end(yes);
  expect(decided).toMatch(/^, approved by .+: go ahead$/);
  expect((await redeem(call, machine, yes)).status).toBe(200);
  expect(await end(yes)).toBe(`, redeemed${decided}`);
  await deny(call, no);
  expect(await end(no)).toMatch(/^, denied by [^:]+$/);
});

test('the README draws the moves of a ticket and no other', () => {
  const states = readFileSync(path.join(root, 'docs/states.md'), 'utf8');
  const drawn = [...states.matchAll(/^ {2}(\w+) --> (\w+): /gm)].map(
    ([, from, to]) => `${from} ${to}`,
  );
  const known = Object.entries(tickets.moves).flatMap(([from, next]) =>
    next.map((to) => `${from} ${to}`),
  );
  expect(drawn.toSorted()).toEqual(known.toSorted());
});
