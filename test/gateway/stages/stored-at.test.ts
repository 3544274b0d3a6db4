import type { ServerResponse } from 'node:http';
import { many } from '../../../domain/sql';
import { post } from '../../support/gateway';
import { until } from '../../support/until';
import { first, openRouted, refusedWith, second, world } from '../exchange/routed';

// Two targets of one provider may ask it by two accounts: what one of them made is sought there.

let made = 0;
function responded(res: ServerResponse, model: string): void {
  made += 1;
  const content = [{ type: 'output_text', text: 'Hi' }];
  const body = {
    ...{ id: `resp_${made}`, object: 'response', status: 'completed', model },
    output: [{ type: 'message', id: `msg_${made}`, role: 'assistant', content }],
    usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
  };
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const ask = (url: string, more: object = {}) =>
  post(`${url}/v1/responses`, world.key, {
    ...{ model: 'gpt-4o-mini', input: 'Hello', max_output_tokens: 16 },
    ...more,
  });

test('an answer is gone on with where it was made, whatever the weights say', async () => {
  const url = await openRouted();
  first.answer = refusedWith(500);
  second.answer = responded;
  const begun = await ask(url);
  expect([begun.status, first.asked.length, second.asked.length]).toEqual([200, 1, 1]);
  const { id } = JSON.parse(begun.text) as { id: string };
  first.answer = responded;
  // At once, as this gateway knows it.
  expect((await ask(url, { previous_response_id: id })).status).toBe(200);
  expect([first.asked.length, second.asked.length]).toEqual([1, 2]);
  const rows = () =>
    many<{ target_id: string | null }>(
      world.api.db,
      'select s.target_id from stored_ids s where s.id = :id',
      { id },
    );
  await until(async () => (await rows()).length > 0);
  expect(await rows()).toEqual([{ target_id: 'second' }]);
  // And at any other gateway, by what the ledger knows.
  const other = await openRouted();
  expect((await ask(other, { previous_response_id: id })).status).toBe(200);
  expect([first.asked.length, second.asked.length]).toEqual([1, 3]);
  // Where it fails the others are asked, as for any call.
  second.answer = refusedWith(500);
  expect((await ask(other, { previous_response_id: id })).status).toBe(200);
  expect([first.asked.length, second.asked.length]).toEqual([2, 4]);
});
