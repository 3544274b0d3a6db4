import { setTimeout as sleep } from 'node:timers/promises';
import { gatewayKey, post } from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';
import { openScriptedGateway, requests, upstream, world } from '../exchange/scripted';
import { named } from '../exchange/streamed';

// Names of members that are those of every object.

// A provider's usage names __proto__: no object of the process may have its members then.
test.each<[string, string, 'messages' | 'unified']>([
  ['a number', '{"polluted_count":7}', 'messages'],
  ['a number, unified', '{"polluted_count":7}', 'unified'],
  ['an error', '{"error":["x"]}', 'messages'],
])('a usage with __proto__ (%s) touches no object and no other tenant', async (_, given, name) => {
  const { url } = await openScriptedGateway({});
  const other = await makeOrg(world.api.db);
  await credit(world.api.db, other.org_id, other.org_wallet, 1_000_000_000n);
  const foreign = await gatewayKey(world.api, other.org_id);
  const good = {
    id: 'm',
    type: 'message',
    role: 'assistant',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    usage: { input_tokens: 10, output_tokens: 5 },
  };
  upstream.play([JSON.stringify(good)], 'application/json');
  const before = await post(url + requests.messages[0], foreign, requests.messages[1]);
  const start = named('message_start', {
    message: { id: 'm', type: 'message', usage: { input_tokens: 10 } },
  }).replace('{"input_tokens":10}', `{"input_tokens":10,"__proto__":${given}}`);
  upstream.play([
    start,
    named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hi' } }),
    named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } }),
    named('message_stop'),
  ]);
  const [path, body] = requests[name];
  await post(url + path, world.key, { ...body, stream: true });
  const polluted = Object.keys(Object.prototype);
  upstream.play([JSON.stringify(good)], 'application/json');
  const after = await Promise.race([
    post(url + requests.messages[0], foreign, requests.messages[1]).then(
      ({ status, text }) => `${status} ${text.slice(0, 150)}`,
      String,
    ),
    sleep(60_000, 'no answer in a minute', { ref: false }),
  ]);
  for (const key of Object.keys(Object.prototype))
    delete (Object.prototype as Record<string, unknown>)[key];
  expect({ before: before.status, polluted, after }).toEqual({
    before: 200,
    polluted: [],
    after: expect.stringMatching(/^200/),
  });
});
