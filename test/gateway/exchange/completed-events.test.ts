import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { many } from '../../../domain/sql';
import { chat, post } from '../../support/gateway';
import { until } from '../../support/until';
import { answered, first, openRouted, path, refusedWith, second, world } from './routed';

/** The end of the event of a call against these upstreams, and what its client got. */
async function told(answer: (res: ServerResponse, model: string) => void, more = {}) {
  first.answer = answer;
  second.answer = answer;
  const label = randomUUID();
  const url = await openRouted();
  const got = await post(url + path, world.key, chat('Hello', more), { 'x-request-id': label });
  let rows: { payload: Record<string, unknown> }[] = [];
  const sql = `select payload from events where type = 'request.completed' and trace_label = :label`;
  await until(async () => {
    rows = await many(world.api.db, sql, { label });
    return rows.length > 0;
  });
  const { status, error_code, provider_status, provider_code } = rows[0]?.payload ?? {};
  return { got: got.status, status, error_code, provider_status, provider_code };
}

const refusal = (status: number, body: unknown) => (res: ServerResponse) => {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};

test('an answer is told with its status', async () => {
  const nothing = { error_code: null, provider_status: null, provider_code: null };
  expect(await told(answered)).toEqual({ got: 200, status: 200, ...nothing });
});

test.each<[string, (res: ServerResponse) => void, object]>([
  [
    'passed on',
    refusedWith(400) as (res: ServerResponse) => void,
    { status: 400, error_code: 'no', provider_status: 400, provider_code: 'no' },
  ],
  [
    'of the gateway itself',
    refusal(401, { error: { message: 'x', type: 'authentication_error', code: null } }),
    {
      status: 502,
      error_code: 'upstream_failed',
      provider_status: 401,
      provider_code: 'authentication_error',
    },
  ],
  [
    'with a number for a code',
    refusal(503, { error: { message: 'x', code: 1234 } }),
    { status: 503, error_code: '1234', provider_status: 503, provider_code: '1234' },
  ],
  [
    'with a code that is none',
    refusal(503, { error: { message: 'x', code: 'a\u0000b', type: 'é' } }),
    { status: 503, error_code: null, provider_status: 503, provider_code: null },
  ],
  [
    'that never came',
    (res) => res.destroy(),
    { status: 502, error_code: 'upstream_failed', provider_status: null, provider_code: null },
  ],
])('a refusal %s is told with the status that the client got', async (_, answer, event) => {
  const { got, ...found } = await told(answer);
  expect(found).toEqual(event);
  expect(got).toBe(found.status);
});
