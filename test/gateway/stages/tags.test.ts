import { many } from '../../../domain/sql';
import { tagsIn } from '../../../gateway/stages/tags';
import {
  arrivals,
  chat,
  forgetArrivals,
  lastCharge,
  openWorld,
  post,
  type World,
} from '../../support/gateway';

let world: World;

beforeAll(async () => {
  world = await openWorld();
});

afterAll(() => world.close());

const ask = (tags: string) =>
  post(`${world.url}/v1/chat/completions`, world.key, chat('Hi'), { 'x-svc-tags': tags });

test('tags are kept on the reservation, each once, and stay off the way upstream', async () => {
  await forgetArrivals(world.models_url);
  expect((await ask('nightly, report ,nightly,,')).status).toBe(200);
  await lastCharge(world, world.org.org_id);
  const [row] = await many<{ tags: string[] }>(
    world.api.db,
    'select tags from reservations where org_id = :org_id order by created_at desc limit 1',
    { org_id: world.org.org_id },
  );
  expect(row?.tags).toEqual(['nightly', 'report']);
  const [arrival] = await arrivals(world.models_url);
  expect(JSON.stringify(arrival)).not.toContain('nightly');
});

// As a client's bytes come in: UTF-8, which most write, and what is none is Latin-1.
test.each([
  ['Projekt-Ä, 日本 ,👩‍👩‍👧', 'utf8', ['Projekt-Ä', '日本', '👩‍👩‍👧']],
  ['ä'.repeat(64), 'utf8', ['ä'.repeat(64)]],
  ['Projekt-Ä', 'latin1', ['Projekt-Ä']],
] as const)('%s in %s are the tags that were written', (given, encoding, tags) => {
  const header = Buffer.from(given, encoding).toString('latin1');
  expect(tagsIn({ req: { headers: { 'x-svc-tags': header } } as never })).toEqual(tags);
});

test('a session is the same one in UTF-8 of its header and in the body', async () => {
  const session_id = 'Sitzung-Ä-日本';
  const header = { 'x-session-id': Buffer.from(session_id).toString('latin1') };
  const body = chat('Hi', { session_id });
  const url = `${world.url}/v1/chat/completions`;
  expect((await post(url, world.key, body, header)).status).toBe(200);
  const rows = await many(
    world.api.db,
    'select 1 from reservations where session_id = :session_id',
    {
      session_id,
    },
  );
  expect(rows).toHaveLength(1);
});

test.each([
  ['a,b,c,d,e,f', 'at most 5 tags'],
  ['x'.repeat(65), 'at most 64 characters'],
])('%s is refused before anything is held', async (tags, words) => {
  const { status, text } = await ask(tags);
  const { error } = JSON.parse(text);
  expect([status, error.param]).toEqual([422, 'x-svc-tags']);
  expect(error.message).toContain(words);
});
