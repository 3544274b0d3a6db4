import { chat, post } from '../../support/gateway';
import { openScriptedGateway, upstream, world } from '../exchange/scripted';
import { data, finish } from '../exchange/streamed';

// Events that one reader takes and another does not.

const usage = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 };
const end = [data(finish({ usage })), 'data: [DONE]\n\n'];
// As a server of models writes odds that are no numbers; Python's parser takes it.
const odd = (delta: object) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, logprobs: { content: [{ logprob: 'X' }] }, finish_reason: null }] }).replace('"X"', '-Infinity')}\n\n`;
const settings = (policy: object) => ({
  pack: 'p',
  policies: { chain: Object.keys(policy) },
  policy,
});
test.each<[string, object, string[], RegExp]>([
  [
    'a blocked term over two events',
    { 'dlp-filter': { blocked_terms: ['project apollo'] } },
    [odd({ content: 'about project ap' }), odd({ content: 'ollo' })],
    /ollo/,
  ],
  [
    'a denied tool',
    { 'agent-firewall': { tools: { deny: ['get_secret'] } } },
    [
      odd({
        tool_calls: [
          {
            index: 0,
            id: 'c',
            type: 'function',
            function: { name: 'get_secret', arguments: '{}' },
          },
        ],
      }),
    ],
    /get_secret/,
  ],
])('%s in events with -Infinity does not reach the client', async (_, policy, events, words) => {
  const { url } = await openScriptedGateway(settings(policy));
  upstream.play([...events, ...end]);
  const { status, text } = await post(
    `${url}/v1/chat/completions`,
    world.key,
    chat('Hello', { stream: true }),
  );
  expect({ status, said: words.test(text), text: text.slice(0, 300) }).toMatchObject({
    said: false,
  });
});

test('the same without -Infinity is blocked (control)', async () => {
  const { url } = await openScriptedGateway(
    settings({ 'dlp-filter': { blocked_terms: ['project apollo'] } }),
  );
  upstream.play([
    odd({ content: 'about project ap' }).replace('-Infinity', '-1'),
    odd({ content: 'ollo' }).replace('-Infinity', '-1'),
    ...end,
  ]);
  const { status, text } = await post(
    `${url}/v1/chat/completions`,
    world.key,
    chat('Hello', { stream: true }),
  );
  expect({ status, said: /ollo/.test(text) }).toMatchObject({ said: false });
});
