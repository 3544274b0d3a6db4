import * as outbox from '../../domain/outbox';
import { type Db, many, one } from '../../domain/sql';
import { openTestDatabase } from '../support/database';

let db: Db;
let close: () => Promise<void>;

beforeAll(async () => {
  ({ db, close } = await openTestDatabase());
});
beforeEach(() => many(db, 'delete from outbox returning id'));
afterAll(() => close());

async function send(workflow: string, workflow_id: string, signal: string | null = 'wake') {
  const { id } = await one<{ id: bigint }>(
    db,
    `insert into outbox (org_id, workflow, workflow_id, signal, input)
     values ('org', :workflow, :workflow_id, :signal, '{}') returning id`,
    { workflow, workflow_id, signal },
  );
  return { id, workflow_id, signal };
}

const left = async () =>
  (await many<{ id: bigint }>(db, 'select id from outbox order by id')).map(({ id }) => id);

test('what arrives takes along what was given up before it, and nothing that says something else', async () => {
  const parked = await send('exportJob', 'a');
  const other = await send('exportJob', 'b');
  const verdict = await send('exportJob', 'a', 'cancel');
  const later = await send('exportJob', 'a');
  const newest = await send('exportJob', 'a');
  const given_up = [parked, other, verdict, newest].map(({ id }) => id);
  await many(db, 'update outbox set parked_at = now() where id = any (:given_up)', { given_up });
  await outbox.done(db, later);
  expect(await left()).toEqual([other, verdict, newest].map(({ id }) => id));
});

test('a notice does not stand behind the other messages of its organization', async () => {
  for (let n = 0; n < 30; n += 1) await send('costTicket', `ticket-${n}`);
  const notice = await send('notices', 'notices-a');
  const claimed = await outbox.claim(db, 2);
  expect(claimed.map(({ id }) => id)).toContain(notice.id);
});
