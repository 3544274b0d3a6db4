import { gatewayKey, lastCharge } from '../../support/gateway';
import { asks, connected, responds, world } from './connected';

const headers = { 'x-svc-include-cost': 'true' };

const cost = async () =>
  Number((await lastCharge(world, world.org.org_id)).actual_cost_nanos) / 1_000_000_000;

test('a socket that asks is told the cost with the end of each answer', async () => {
  const chats = await connected('/v1/chat/completions/ws', { headers });
  chats.send(asks('Hello.'));
  const done = (await chats.answer('chat.completion.done')).at(-1);
  expect(done).toMatchObject({
    usage: { cost: await cost(), cost_details: { currency: 'USD', lines: expect.any(Array) } },
  });
  const answers = await connected('/v1/responses', { headers });
  answers.send(responds('Hello.'));
  const completed = (await answers.answer('response.completed')).at(-1);
  expect(completed).toMatchObject({ response: { usage: { cost: await cost() } } });
});

test('a socket that does not ask is told none, and a key that is set to asks by itself', async () => {
  const plain = await connected('/v1/responses');
  plain.send(responds('Hello.'));
  expect(JSON.stringify(await plain.answer('response.completed'))).not.toContain('"cost"');
  await cost();
  const key = await gatewayKey(world.api, world.org.org_id, { include_cost: true });
  const asking = await connected('/v1/responses', { key });
  asking.send(responds('Hello.'));
  const completed = (await asking.answer('response.completed')).at(-1);
  expect(completed).toMatchObject({ response: { usage: { cost: await cost() } } });
});

test('a wrong word is told in a frame that has the id of the call', async () => {
  const client = await connected('/v1/responses', { headers: { 'x-svc-include-cost': '1' } });
  client.send(responds('Hello.'));
  const [told] = await client.answer('error');
  expect(told).toMatchObject({
    status: 422,
    error: {
      param: 'x-svc-include-cost',
      headers: { 'x-svc-request-id': expect.stringMatching(/^req_/) },
    },
  });
});
