import { modelFor, NO_MODEL } from '../../console/web/keys/models';

const priced = (model: string, output_per_1m: number | null = 1) => ({
  provider: 'openai',
  model,
  output_per_1m,
});
const prices = [priced('embedding', null), priced('claude-4'), priced('gpt-4o-mini')];

test.each([
  ['every model', null, 'claude-4'],
  ['a beginning with a star', ['gpt-4o*'], 'gpt-4o-mini'],
  ['one by its whole name', ['gpt-4o-mini'], 'gpt-4o-mini'],
  ['an unpriced one behind a priced one', ['gpt-9', 'claude*'], 'claude-4'],
  ['unpriced ones alone', ['o9*', 'gpt-9'], 'gpt-9'],
  ['no priced beginning', ['o9*'], NO_MODEL],
])('the example of a key that may call %s names a model that works', (_, allowed, model) => {
  expect(modelFor(prices, allowed)).toBe(model);
});

test('without prices no model is made up', () => {
  expect(modelFor([], null)).toBe(NO_MODEL);
  expect(modelFor([priced('embedding', null)], null)).toBe(NO_MODEL);
});
