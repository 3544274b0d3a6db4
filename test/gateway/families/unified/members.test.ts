import { readFileSync } from 'node:fs';
import path from 'node:path';
import { unified } from '../../../../gateway/families/table';
import { chatOverMessages } from '../../../../gateway/families/unified/messages';
import { left_out, said } from '../../../../gateway/families/unified/words';
import { root } from '../../../../runtime/root';
import { plain_wire, refusalOf, take } from '../taken';

const base = { model: 'claude-sonnet-4-5', messages: [{ role: 'user', content: 'Hello' }] };

async function sent(more: object): Promise<string> {
  return chatOverMessages.request(
    await take({ ...base, ...more }, unified),
    base.model,
    plain_wire,
  );
}

// What may be left out and what may not, of each member of the table.
const examples: Record<string, { silent: unknown[]; telling: unknown[] }> = {
  user: { silent: ['me'], telling: [] },
  safety_identifier: { silent: ['me'], telling: [] },
  metadata: { silent: [{ a: 'b' }], telling: [] },
  store: { silent: [true, false], telling: [] },
  prediction: { silent: [{ type: 'content', content: 'x' }], telling: [] },
  prompt_cache_key: { silent: ['x'], telling: [] },
  prompt_cache_options: { silent: [{}], telling: [] },
  prompt_cache_retention: { silent: ['24h'], telling: [] },
  seed: { silent: [7], telling: [] },
  n: { silent: [1], telling: [2] },
  best_of: { silent: [1], telling: [2] },
  frequency_penalty: { silent: [0], telling: [0.5, '0'] },
  presence_penalty: { silent: [0], telling: [-1] },
  logprobs: { silent: [false], telling: [true] },
  top_logprobs: { silent: [0], telling: [3] },
  logit_bias: { silent: [{}], telling: [{ 50256: -100 }, []] },
  modalities: { silent: [[], ['text']], telling: [['text', 'audio']] },
  verbosity: { silent: ['medium'], telling: ['low'] },
  inference_geo: { silent: ['global'], telling: ['us'] },
};

test.each([...left_out.keys()])('"%s" is left out only where it changes nothing', async (name) => {
  const { silent = [], telling = [] } = examples[name] ?? {};
  expect(silent).not.toEqual([]);
  const nothing = await sent({});
  for (const value of [...silent, null]) expect(await sent({ [name]: value })).toBe(nothing);
  for (const value of telling) {
    const { status, error } = await refusalOf(sent({ [name]: value }) as never);
    expect([name, value, status, error.param]).toEqual([name, value, 422, name]);
  }
});

// Members of the wire that change the answer and that Messages have no word for.
const refused = ['audio', 'function_call', 'functions', 'moderation', 'web_search_options'];

test('every member of the wire, as its official client knows them, is decided', () => {
  const file = 'node_modules/openai/resources/chat/completions/completions.d.ts';
  const types = readFileSync(path.join(root, file), 'utf8');
  const [, members = ''] =
    /interface ChatCompletionCreateParamsBase \{\n(.*?)\n\}/s.exec(types) ?? [];
  const names = [...members.matchAll(/^ {4}(\w+)\??:/gm)].map(([, name]) => name as string);
  expect(names.length).toBeGreaterThan(30);
  const decided = new Set([...said, ...left_out.keys(), ...refused]);
  expect(names.filter((name) => !decided.has(name))).toEqual([]);
});

test.each([...refused, 'thinking', 'top_k', 'enable_thinking', '__proto__'])(
  '"%s" is refused, as what nobody knows is',
  async (name) => {
    const text = JSON.stringify({ ...base, zzz: 'low' }).replace('zzz', name);
    const request = take(text, unified).then((taken) =>
      chatOverMessages.request(taken, 'x', plain_wire),
    );
    const { status, error } = await refusalOf(request as never);
    expect({ status, param: error.param }).toEqual({ status: 422, param: name });
  },
);
