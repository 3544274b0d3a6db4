import type { ServerResponse } from 'node:http';
import { request } from 'undici';
import { chat, gatewayKey, lastCharge, post } from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';
import { answered, first, openRouted, path, second, world } from '../exchange/routed';
import { data, delta, named } from '../exchange/streamed';

type Answer = (res: ServerResponse) => void;
const json =
  (status: number, body: unknown, headers: Record<string, string> = {}): Answer =>
  (res) =>
    res
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(body));
const events =
  (...pieces: string[]): Answer =>
  (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const p of pieces) res.write(p);
    res.end();
  };

// Words about the account of the gateway, and about mistakes of the client.

test.each<[string, Answer]>([
  [
    'anthropic usage limits (400)',
    json(400, {
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message:
          'You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.',
      },
    }),
  ],
  [
    'fireworks suspended (412)',
    json(412, {
      error: {
        object: 'error',
        type: 'invalid_request_error',
        code: 'PRECONDITION_FAILED',
        message:
          'Account acme-1 is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices. Please go to https://fireworks.ai/account/billing for more information.',
      },
    }),
  ],
  [
    'zhipu balance (429)',
    json(429, {
      error: {
        code: '1113',
        message: 'Insufficient balance or no resource package. Please recharge.',
      },
    }),
  ],
  [
    'zhipu arrears (429)',
    json(429, { error: { code: '1113', message: 'Your account is in arrears, please recharge' } }),
  ],
  [
    'xai credits (429)',
    json(429, {
      code: 'Some resource has been exhausted',
      error:
        'Your team 12ab has either used all available credits or reached its monthly spending limit. To continue making API requests, please purchase more credits or raise your spending limit.',
    }),
  ],
  [
    'gemini billing (400)',
    json(400, [
      {
        error: {
          code: 400,
          message:
            'Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.',
          status: 'FAILED_PRECONDITION',
        },
      },
    ]),
  ],
  [
    'gemini key invalid (400)',
    json(400, [
      {
        error: {
          code: 400,
          message: 'API key not valid. Please pass a valid API key.',
          status: 'INVALID_ARGUMENT',
        },
      },
    ]),
  ],
  [
    'minimax 200 base_resp 1008',
    json(200, { base_resp: { status_code: 1008, status_msg: 'insufficient balance' } }),
  ],
  [
    'minimax 200 base_resp 1004',
    json(200, {
      base_resp: { status_code: 1004, status_msg: 'login fail: Please carry the API secret key' },
    }),
  ],
  [
    'openai hard limit (400)',
    json(400, {
      error: {
        message: 'Billing hard limit has been reached',
        type: 'invalid_request_error',
        param: null,
        code: 'billing_hard_limit_reached',
      },
    }),
  ],
  [
    'openrouter key limit (403)',
    json(403, {
      error: {
        code: 403,
        message: 'Key limit exceeded. Manage it using https://openrouter.ai/settings/keys',
      },
    }),
  ],
  [
    'openai 400 verify org',
    json(400, {
      error: {
        message:
          'Your organization must be verified to stream this model. Please go to: https://platform.openai.com/settings/organization/general',
        type: 'invalid_request_error',
        param: 'stream',
        code: 'unsupported_value',
      },
    }),
  ],
  ['200 error: text, insufficient credits', json(200, { error: 'insufficient_quota' })],
  [
    '200 error.code 1113',
    json(200, {
      error: {
        code: '1113',
        message: 'Insufficient balance or no resource package. Please recharge.',
      },
    }),
  ],
])('account: %s: next target, and never told', async (_, answer) => {
  const url = await openRouted();
  first.answer = answer;
  const one = await post(url + path, world.key, chat('Hello'));
  const asked = second.asked.length;
  second.answer = answer;
  const all = await post(url + path, world.key, chat('Hello'));
  const said =
    /recharge|balance|credits|billing|suspended|limit|usage|verified|secret key|insufficient/i.test(
      all.text.replace('The provider refused this gateway', ''),
    );
  expect({ served: one.status, asked, status: all.status, said, text: all.text }).toMatchObject({
    served: 200,
    asked: 1,
    status: expect.any(Number),
    said: false,
  });
});

test.each<[string, Answer, boolean]>([
  ...[
    'invalid_image_url',
    'image_parse_error',
    'invalid_image',
    'failed_to_download_image',
    'image_content_policy_violation',
    'invalid_base64_image',
    'image_too_large',
    'unsupported_image_media_type',
    'image_file_not_found',
  ].map((code): [string, Answer, boolean] => [
    `response.failed ${code}`,
    events(
      named('response.created', { response: { id: 'r', output: [] } }),
      named('response.failed', {
        response: {
          id: 'r',
          object: 'response',
          status: 'failed',
          output: [],
          error: { code, message: 'The image could not be taken.' },
        },
      }),
    ),
    true,
  ]),
  [
    'json status failed invalid_image_url',
    json(200, {
      id: 'r',
      object: 'response',
      status: 'failed',
      output: [],
      error: { code: 'invalid_image_url', message: 'The image could not be taken.' },
    }),
    false,
  ],
])('client mistake by %s opens no circuit for others', async (_, answer, stream) => {
  const url = await openRouted({ circuit_breaker: { enabled: true, failures: 3, open_ms: 60000 } });
  const other = await makeOrg(world.api.db);
  await credit(world.api.db, other.org_id, other.org_wallet, 1_000_000_000n);
  const foreign = await gatewayKey(world.api, other.org_id);
  first.answer = answer;
  second.answer = answer;
  const said = [];
  for (let i = 0; i < 3; i += 1)
    said.push(
      (
        await post(`${url}/v1/responses`, world.key, {
          model: 'gpt-4o-mini',
          input: [
            {
              role: 'user',
              content: [{ type: 'input_image', image_url: 'http://x.invalid/a.png' }],
            },
          ],
          max_output_tokens: 16,
          stream,
        })
      ).status,
    );
  first.answer = answered;
  second.answer = answered;
  const theirs = await post(url + path, foreign, chat('Hello'));
  expect({ said, theirs: theirs.status }).toEqual({ said: [400, 400, 400], theirs: 200 });
});

test('failed after a picture was delivered is not free (chat images)', async () => {
  const url = await openRouted();
  first.answer = events(
    data({
      id: 'c',
      choices: [
        { index: 0, delta: { images: [{ image_url: { url: 'data:image/png;base64,AAAA' } }] } },
      ],
    }),
    data({
      error: { message: 'x', type: 'server_error' },
      usage: { prompt_tokens: 1000, completion_tokens: 1290, total_tokens: 2290 },
    }),
  );
  const { status, text } = await post(
    url + path,
    world.key,
    chat('Hello', { stream: true, max_tokens: 2000 }),
  );
  const c = await lastCharge(world, world.org.org_id);
  expect({ status, has: text.includes('AAAA'), cost: Number(c.actual_cost_nanos) }).toEqual({
    status: 200,
    has: true,
    cost: expect.any(Number),
  });
  expect(Number(c.actual_cost_nanos)).toBeGreaterThan(0);
});

test('account words after content are not told', async () => {
  const url = await openRouted();
  first.answer = events(
    data(delta('Hi')),
    data({
      error: {
        message: 'You exceeded your current quota, please check your plan and billing details.',
        type: 'insufficient_quota',
        code: 'insufficient_quota',
      },
    }),
  );
  const { text } = await post(url + path, world.key, chat('Hello', { stream: true }));
  expect(text).not.toContain('billing details');
});
test('a role that is let go after a second, then an error of the account', async () => {
  const url = await openRouted();
  let upstream: ServerResponse | undefined;
  first.answer = (res) => {
    upstream = res;
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(data({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] }));
  };
  const { statusCode: status, body } = await request(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${world.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(chat('Hello', { stream: true })),
  });
  const message = 'You exceeded your current quota, please check your plan and billing details.';
  upstream?.end(data({ error: { message, code: 'insufficient_quota' } }));
  const text = await body.text();
  const c = await lastCharge(world, world.org.org_id);
  expect({ status, cost: Number(c.actual_cost_nanos) }).toEqual({ status: 200, cost: 0 });
  expect(text).not.toContain('billing details');
});
