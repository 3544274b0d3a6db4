import { one } from '../../../domain/sql';
import { chat, post } from '../../support/gateway';
import { until } from '../../support/until';
import {
  bring,
  keysSeen,
  makeOwner,
  manage,
  type Owner,
  PLATFORM,
  secret,
  url,
  world,
} from './owners';

// What a provider keeps lies in the account of the key that it was asked by.

async function respond(owner: Owner, more: object = {}, at = url) {
  const body = { model: 'gpt-4o-mini', input: 'Hello', max_output_tokens: 64, ...more };
  const answer = await post(`${at}/v1/responses`, owner.key, body);
  return { status: answer.status, body: JSON.parse(answer.text) };
}

/** Until the control plane knows an id, so that another gateway may ask for it. */
async function untilKept(id: string): Promise<void> {
  const sql = 'select count(*)::int as count from stored_ids where id = :id';
  await until(async () => (await one<{ count: number }>(world.api.db, sql, { id })).count > 0);
}

test('what was made by an own key is named by that key alone, here and at another gateway', async () => {
  const owner = await makeOwner();
  const key = secret('keeps');
  const id = await bring(owner, { key, own_keys: 'first' });
  const other = (await world.openGateway()).url;
  const first = await respond(owner);
  const named = { previous_response_id: first.body.id };
  expect((await respond(owner, named)).status).toBe(200);
  await untilKept(first.body.id);
  expect((await respond(owner, named, other)).status).toBe(200);
  expect(await keysSeen()).toEqual([key, key, key]);
  await manage(owner, 'delete', id);
  for (const at of [url, other]) {
    const { status, body } = await respond(owner, named, at);
    expect([status, body.error.code]).toEqual([404, 'stored_id_unknown']);
  }
  expect(await keysSeen()).toEqual([]);
});

test('what the key of the platform made is not asked for by an own one', async () => {
  const [strict, lenient] = [await makeOwner(), await makeOwner()];
  const made = new Map<Owner, string>();
  for (const owner of [strict, lenient]) {
    const { body } = await respond(owner);
    await untilKept(body.id);
    made.set(owner, body.id);
  }
  await bring(strict, { key: secret('strict') });
  await bring(lenient, { key: secret('lenient'), own_keys: 'first' });
  await keysSeen();
  const again = (owner: Owner) => respond(owner, { previous_response_id: made.get(owner) });
  expect((await again(strict)).status).toBe(404);
  expect(await keysSeen()).toEqual([]);
  expect((await again(lenient)).status).toBe(200);
  expect(await keysSeen()).toEqual([PLATFORM]);
  // Whoever names nothing is served as ever.
  expect((await post(`${url}/v1/chat/completions`, strict.key, chat('Hello'))).status).toBe(200);
  expect(await keysSeen()).toEqual([secret('strict')]);
});
