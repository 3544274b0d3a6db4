import { asked, type Protocol, protocolOf } from '../../../gateway/sockets/frames';
import { gatewayKey, lastCharge } from '../../support/gateway';
import { asks, connected, responds, world } from './connected';

describe('what a frame cannot have', () => {
  it.each([
    ['no JSON', '{"type":', { status: 400, error: { code: 'invalid_json' } }],
    ['no object', '[1]', { status: 400, error: { code: 'invalid_request' } }],
    ['another type', { type: 'session.update' }, { status: 422, error: { param: 'type' } }],
    ['a steer', { type: 'response.steer' }, { status: 422, error: { param: 'type' } }],
    [
      'a lane that is no text',
      { type: 'response.create', stream_id: 7 },
      { status: 422, error: { param: 'stream_id' } },
    ],
    [
      'a warm-up',
      responds('Hello.', { generate: false }),
      { status: 422, error: { param: 'generate' } },
    ],
    [
      'an answer in the background',
      responds('Hello.', { background: true }),
      { status: 422, error: { param: 'background' } },
    ],
    [
      'no model',
      { type: 'response.create', input: 'Hello.' },
      { status: 422, error: { param: 'model' } },
    ],
    [
      'a model without a price',
      responds('Hello.', { model: 'unpriced' }),
      { status: 422, error: { code: 'model_not_priced' } },
    ],
    [
      'a bound beyond every number',
      '{"type":"response.create","model":"gpt-4o-mini","input":"Hello.","max_output_tokens":1e400}',
      { status: 422, error: { param: 'max_output_tokens' } },
    ],
    [
      'two spellings of a deciding key',
      responds('Hello.', { Model: 'gpt-4o' }),
      { status: 400, error: { param: 'Model' } },
    ],
  ])('%s is told, and the socket stays', async (_, frame, refusal) => {
    const client = await connected('/v1/responses/ws');
    client.send(frame);
    const [told] = await client.answer('error');
    expect(told).toMatchObject({
      type: 'error',
      request_id: expect.stringMatching(/^req_/),
      ...refusal,
    });
    client.send(responds('Hello.'));
    expect((await client.answer('response.completed')).length).toBeGreaterThan(3);
  });

  it('a model that the key may not use', async () => {
    const key = await gatewayKey(world.api, world.org.org_id, { allowed_models: ['gpt-4o'] });
    const client = await connected('/v1/responses/ws', { key });
    client.send(responds('Hello.'));
    const [told] = await client.answer('error');
    expect(told).toMatchObject({
      status: 403,
      error: { code: 'model_not_allowed', param: 'model' },
    });
  });
});

describe('what goes upstream of a frame', () => {
  it.each([
    ['{"type":"chat.completion.create"}', '{"stream":true}'],
    [
      ' { "seed" : 9007199254740993 , "type":"chat.completion.create" , "stream" : false } ',
      '{"stream":true,"seed" : 9007199254740993 }',
    ],
    [
      '{"type":"chat.completion.create","stream_id":"a","a":[1.0,"}"],"generate":true,"b":{"type":1e2}}',
      '{"stream":true,"a":[1.0,"}"],"b":{"type":1e2}}',
    ],
  ])('%s is all but its own members, as they were written', (text, body) => {
    const protocol = protocolOf('/v1/chat/completions/ws') as Protocol;
    expect(asked(text, JSON.parse(text), protocol).body.toString()).toBe(body);
  });
});

describe('a frame that may be read in two ways', () => {
  it.each([
    '"model":"gpt-4o-mini","model":"o4-mini","input":"Hello"',
    '"model":"gpt-4o-mini","Model":"o4-mini","input":"Hello"',
  ])('%s is refused, and the socket stays', async (members) => {
    const client = await connected('/v1/responses/ws');
    client.send(`{"type":"response.create",${members}}`);
    const [told] = await client.answer('error');
    expect(told).toMatchObject({ status: 400, error: { code: 'invalid_request' } });
    client.send(responds('Hello', {}));
    await client.answer('response.completed');
  });
});

describe('trouble upstream', () => {
  it('a refusal comes as an error frame with its status, and costs nothing', async () => {
    const client = await connected('/v1/responses/ws');
    client.send(responds('No. [[fault:error status=400]]', { stream_id: 'one' }));
    const [told] = await client.answer('error', 'one');
    expect(told).toMatchObject({
      status: 400,
      stream_id: 'one',
      error: { code: 'sandbox', message: 'A fault was asked for.' },
    });
    expect(await lastCharge(world, world.org.org_id)).toMatchObject({ actual_cost_nanos: 0n });
  });

  it.each(['/v1/responses/ws', '/v1/chat/completions/ws'])(
    'an answer that breaks off ends with an error frame on %s',
    async (path) => {
      const client = await connected(path);
      const ask = path.includes('chat') ? asks : responds;
      client.send(ask('Break. [[fault:cut after=3]]', { stream_id: 'one' }));
      const frames = await client.answer('error', 'one');
      expect(frames.length).toBeGreaterThan(2);
      expect(frames.at(-1)).toMatchObject({ status: 502, error: { code: 'upstream_failed' } });
      client.send(ask('Again.', { stream_id: 'one' }));
      await client.answer(
        path.includes('chat') ? 'chat.completion.done' : 'response.completed',
        'one',
      );
    },
  );

  it.each(['/v1/responses/ws', '/v1/chat/completions/ws'])(
    'an error inside the stream has the shape of all error frames on %s',
    async (path) => {
      const client = await connected(path);
      const ask = path.includes('chat') ? asks : responds;
      client.send(ask('Fail. [[fault:error-frame after=2]]', { stream_id: 'one' }));
      const frames = await client.answer('error', 'one');
      expect(frames.at(-1)).toMatchObject({
        type: 'error',
        status: 502,
        stream_id: 'one',
        error: { message: expect.any(String) },
      });
      expect(frames.at(-1)).not.toHaveProperty('code');
    },
  );
});
