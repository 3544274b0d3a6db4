import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import {
  arrivals,
  chat,
  forgetArrivals,
  gatewayKey,
  lastCharge,
  post,
} from '../../support/gateway';
import { credit, makeOrg } from '../../support/ledger';
import { createRawServer, serveTest } from '../../support/mcp';
import type { Frame } from '../../support/socket';
import { until } from '../../support/until';
import { asks, behindWire, connected, models, responds, world } from './connected';

describe('the official client', () => {
  it('asks for a response over its own path, and is charged what the provider told', async () => {
    const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: world.key });
    const socket = new ResponsesWS(client);
    const types: string[] = [];
    socket.send({ type: 'response.create', model: 'gpt-4o-mini', input: 'Say hello.' });
    for await (const event of socket.stream()) {
      if (event.type === 'error') throw event.error;
      if (event.type === 'message') types.push(event.message.type);
      if (types.at(-1) === 'response.completed') socket.close();
    }
    expect(types[0]).toBe('response.created');
    expect(types).toContain('response.output_text.delta');
    expect(await lastCharge(world, world.org.org_id)).toMatchObject({
      status: 'settled',
      outcome: 'completed',
      usage_source: 'upstream',
    });
  });

  it('is told of a refusal as an error of its own shape, and the socket stays', async () => {
    const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: world.key });
    const socket = new ResponsesWS(client);
    const errors: unknown[] = [];
    const done = new Promise<void>((resolve) => {
      socket.on('response.completed', () => resolve());
      socket.on('error', (error) => {
        errors.push(error.error);
        socket.send({ type: 'response.create', model: 'gpt-4o-mini', input: 'Say hello.' });
      });
    });
    socket.send({ type: 'response.create', model: 'nobody-serves-this', input: 'Say hello.' });
    await done;
    socket.close();
    expect(errors).toMatchObject([
      { status: 404, error: { code: 'model_not_found', type: 'not_found_error' } },
    ]);
  });
});

describe('chat over a socket', () => {
  it('sends the chunks of the stream, each with its lane, then the end with its usage', async () => {
    const client = await connected();
    client.send(asks('Say hello.', { stream_id: 'one' }));
    const frames = await client.answer('chat.completion.done');
    expect(frames.every(({ stream_id }) => stream_id === 'one')).toBe(true);
    const text = textOf(frames);
    const whole = JSON.parse(
      (await post(`${world.url}/v1/chat/completions`, world.key, chat('Say hello.'))).text,
    );
    expect(text).toBe(whole.choices[0].message.content);
    expect(frames.at(-1)?.usage).toMatchObject({
      prompt_tokens: whole.usage.prompt_tokens,
      total_tokens: whole.usage.total_tokens,
    });
  });

  it('charges the same as the HTTP route for the same body', async () => {
    const org = await makeOrg(world.api.db);
    await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
    const key = await gatewayKey(world.api, org.org_id);
    await post(`${world.url}/v1/chat/completions`, key, chat('The same.', { stream: true }));
    const by_http = await lastCharge(world, org.org_id);
    const client = await connected('/v1/chat/completions/ws', { key });
    client.send(asks('The same.'));
    await client.answer('chat.completion.done');
    const { held_nanos: _, ...by_socket } = await lastCharge(world, org.org_id);
    expect(by_http).toMatchObject(by_socket);
    expect(by_socket.actual_cost_nanos).toBeGreaterThan(0n);
  });

  it('sends the body of the frame upstream and nothing of the frame itself', async () => {
    await forgetArrivals(world.models_url);
    const client = await connected();
    client.send(asks('Look at me.', { stream_id: 'one', seed: 7 }));
    await client.answer('chat.completion.done');
    const [{ body, headers } = { body: {}, headers: {} }] = await arrivals(world.models_url);
    expect(body).toMatchObject({ seed: 7, stream: true, model: 'gpt-4o-mini' });
    expect(Object.keys(body)).not.toEqual(expect.arrayContaining(['stream_id']));
    expect(body).not.toHaveProperty('type');
    expect(JSON.stringify(headers)).not.toContain(world.key);
  });
});

describe('lanes', () => {
  it('answers within a lane one after the other, in the order asked', async () => {
    const client = await connected();
    client.send(asks('First. [[fault:slow delay=20]]', { stream_id: 'one' }));
    client.send(asks('Second.', { stream_id: 'one' }));
    const first = await client.answer('chat.completion.done', 'one');
    const second = await client.answer('chat.completion.done', 'one');
    expect(new Set(first.flatMap(({ id }) => id ?? [])).size).toBe(1);
    expect(new Set(second.flatMap(({ id }) => id ?? [])).size).toBe(1);
    expect(textOf(first)).toContain('First.');
    expect(textOf(second)).toContain('Second.');
  });

  it('answers lanes side by side', async () => {
    const { url, close } = await behindWire();
    const client = await connected('/v1/chat/completions/ws', { url });
    const before = models.answered();
    models.keepAfter('');
    client.send(asks('Slow.', { stream_id: 'slow' }));
    await until(() => models.answered() > before);
    models.keepAfter();
    client.send(asks('Quick.', { stream_id: 'quick' }));
    const quick = await client.answer('chat.completion.done', 'quick');
    expect(textOf(quick)).toContain('Quick.');
    expect(client.frames.filter(({ type }) => type !== undefined)).toEqual([]);
    models.release();
    expect(textOf(await client.answer('chat.completion.done', 'slow'))).toContain('Slow.');
    await close();
  });

  it('refuses a lane beyond the limit, and goes on with the others', async () => {
    const { url, close } = await world.openGateway({ settings: { sockets: { lanes_max: 1 } } });
    const client = await connected('/v1/responses/ws', { url });
    client.send(responds('Slow. [[fault:slow delay=20]]', { stream_id: 'one' }));
    client.send(responds('No.', { stream_id: 'two' }));
    const [refusal] = await client.answer('error', 'two');
    expect(refusal).toMatchObject({
      status: 429,
      stream_id: 'two',
      error: {
        code: 'websocket_stream_limit_reached',
        headers: {
          'retry-after': '1',
          'x-ratelimit-limit': '1',
          'x-ratelimit-remaining': '0',
          'x-ratelimit-reset': expect.stringMatching(/^\d{10,}$/),
        },
      },
    });
    expect((await client.answer('response.completed', 'one')).length).toBeGreaterThan(3);
    await close();
  });

  it('refuses frames beyond those that may wait', async () => {
    const { url, close } = await world.openGateway({ settings: { sockets: { waiting_max: 1 } } });
    const client = await connected('/v1/responses/ws', { url });
    for (const input of ['One. [[fault:slow delay=20]]', 'Two.', 'Three.']) {
      client.send(responds(input));
    }
    await client.answer('error');
    const left = [
      await client.answer('response.completed'),
      await client.answer('response.completed'),
    ];
    expect(left.map((frames) => textOfResponse(frames))).toEqual([
      expect.stringContaining('One.'),
      expect.stringContaining('Two.'),
    ]);
    await close();
  });
});

describe('money', () => {
  it('is asked for with a cost ticket, which the next frame may bring', async () => {
    const org = await makeOrg(world.api.db);
    const key = await gatewayKey(world.api, org.org_id);
    const client = await connected('/v1/responses/ws', { key });
    client.send(responds('Hello.', { stream_id: 'one' }));
    const [told] = await client.answer('error', 'one');
    expect(told).toMatchObject({
      status: 402,
      error: { code: 'insufficient_balance', headers: { 'x-should-retry': 'false' } },
      cost_ticket: { id: expect.any(String), status: 'open' },
    });
    await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
    client.send(responds('Hello.', { stream_id: 'one', cost_ticket: told?.cost_ticket.id }));
    await client.answer('response.completed', 'one');
    expect(await lastCharge(world, org.org_id)).toMatchObject({ outcome: 'completed' });
  });

  it('is charged for what was answered where the client goes in the middle', async () => {
    const org = await makeOrg(world.api.db);
    await credit(world.api.db, org.org_id, org.org_wallet, 1_000_000_000n);
    const key = await gatewayKey(world.api, org.org_id);
    const { url, sockets, close } = await behindWire();
    const client = await connected('/v1/chat/completions/ws', { url, key });
    models.keepAfter('{"content":"');
    client.send(asks('Go on. [[fault:chunks count=60; slow delay=5]]', { max_tokens: 400 }));
    client.send(asks('This one never starts.'));
    await client.some(({ choices }) => choices?.[0]?.delta.content);
    client.ws.terminate();
    await until(() => sockets.sessions.size === 0);
    models.release();
    const charge = await lastCharge(world, org.org_id);
    await close();
    expect(charge).toMatchObject({ status: 'settled', outcome: 'completed' });
    expect(charge.actual_cost_nanos).toBeGreaterThan(0n);
    const text = (await arrivals(world.models_url)).map(({ body }) => JSON.stringify(body)).join();
    expect(text).not.toContain('This one never starts.');
  });
});

describe('a provider that does not stream although it is asked to', () => {
  const usage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 };
  const answers = {
    chat: {
      id: 'c',
      object: 'chat.completion',
      model: 'gpt-4o-mini',
      usage,
      choices: [
        { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hi.' } },
      ],
    },
    response: {
      id: 'r',
      object: 'response',
      status: 'completed',
      model: 'gpt-4o-mini',
      output: [],
      usage: { input_tokens: 9, output_tokens: 2, total_tokens: 11 },
    },
  };

  it('is answered from in one frame, and paid for by its usage', async () => {
    const server = createRawServer((req, res) => {
      const answer = req.url?.includes('chat') ? answers.chat : answers.response;
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
    const { url: upstream, close } = await serveTest(server);
    const target = { base_url: upstream.replace(/mcp$/, 'v1') };
    const gateway = await world.openGateway({ target });
    const chats = await connected('/v1/chat/completions/ws', { url: gateway.url });
    chats.send(asks('Hello.', { stream_id: 'one' }));
    const [whole, done] = await chats.answer('chat.completion.done', 'one');
    expect(whole).toEqual({ stream_id: 'one', ...answers.chat });
    expect(done?.usage).toMatchObject(usage);
    const responses = await connected('/v1/responses/ws', { url: gateway.url });
    responses.send(responds('Hello.', { stream_id: 'one' }));
    const frames = await responses.answer('response.completed', 'one');
    expect(frames).toMatchObject([{ response: answers.response }]);
    expect(await lastCharge(world, world.org.org_id)).toMatchObject({
      usage_source: 'upstream',
      outcome: 'completed',
    });
    await gateway.close();
    await close();
  });
});

function textOf(frames: Frame[]): string {
  return frames
    .flatMap(({ choices = [] }) => choices)
    .map(({ delta }) => delta.content ?? '')
    .join('');
}

function textOfResponse(frames: Frame[]): string {
  return frames.map(({ delta = '' }) => delta).join('');
}
