import { runSetup } from '../../api/admin-setup';
import { modelsFor, NO_MODEL } from '../../console/web/keys/models';
import { programs } from '../../console/web/keys/programs';

const priced = (model: string, output_per_1m: number | null = 1) => ({
  provider: 'openai',
  model,
  output_per_1m,
});
const prices = [priced('embedding', null), priced('claude-4'), priced('gpt-4o-mini')];

test.each([
  ['every model', null, 'gpt-4o-mini'],
  ['a beginning with a star', ['gpt-4o*'], 'gpt-4o-mini'],
  ['one by its whole name', ['gpt-4o-mini'], 'gpt-4o-mini'],
  ['an unpriced one behind a priced one', ['gpt-9', 'claude*'], 'claude-4'],
  ['unpriced ones alone', ['o9*', 'gpt-9'], 'gpt-9'],
  ['no priced beginning', ['o9*'], NO_MODEL],
])('the example of a key that may call %s names a model that works', (_, allowed, model) => {
  expect(modelsFor(prices, allowed).chat).toBe(model);
});

test('without prices no model is made up', () => {
  expect(modelsFor([], null)).toEqual({
    chat: NO_MODEL,
    responses: NO_MODEL,
    messages: NO_MODEL,
  });
  expect(modelsFor([priced('embedding', null)], null).chat).toBe(NO_MODEL);
});

test.each<[string, string[] | null, object]>([
  ['any', null, { chat: 'gpt-4o-mini', responses: 'gpt-4o-mini', messages: 'claude-sonnet-4-5' }],
  ['Claude alone', ['claude-*'], { chat: 'claude-sonnet-4-5', messages: 'claude-sonnet-4-5' }],
  ['no Claude', ['gpt-*'], { chat: 'gpt-4o-mini', responses: 'gpt-4o-mini' }],
])('a key that may call %s is shown a model of each wire that has one', (_, allowed, models) => {
  const both = [priced('claude-sonnet-4-5', 15), priced('gpt-4o-mini', 0.6)];
  expect(modelsFor(both, allowed)).toEqual(models);
});

const place = { key: 'svc_gk_x', gateway: 'https://gateway.example.com' };
const shown = (program: string, model: string) =>
  programs
    .find(({ name }) => name === program)
    ?.texts(place, model)
    .map(({ text }) => text)
    .join('\n') ?? '';

function printed(client: string, model: string): string[] {
  const lines: string[] = [];
  runSetup([client, '--gateway', place.gateway, '--model', model], (line) => lines.push(line));
  return lines;
}

test.each(['gpt-4o-mini', 'claude-sonnet-4-5', 'eu.anthropic.Claude-opus'])(
  'the console and the terminal ask for %s at the same address',
  (model) => {
    const base = /claude/i.test(model) ? '/v1/unified' : '/v1';
    for (const program of ['curl', 'SDK', 'Cursor'])
      expect(shown(program, model)).toMatch(new RegExp(`example.com${base}['/\\n]`));
    expect(printed('cursor', model)).toContain(`Override OpenAI Base URL  ${place.gateway}${base}`);
    expect(printed('aider', model)).toContain(`export OPENAI_API_BASE=${place.gateway}${base}`);
  },
);

test('the console shows the lines for Claude Code that the terminal prints', () => {
  const [, ...lines] = printed('claude-code', 'claude-sonnet-4-5');
  const text = lines.join('\n').replace('$SVC_GATEWAY_KEY', place.key);
  expect(shown('Claude Code', 'claude-sonnet-4-5')).toBe(`${text}\nclaude`);
});
