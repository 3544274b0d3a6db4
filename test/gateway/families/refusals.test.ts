import { completions, moderations, responses, speech } from '../../../gateway/families/table';
import { refusalOf, take } from './taken';

test.each<[string, object, string]>([
  ['a prompt that is a number', { prompt: 5 }, 'prompt'],
  ['a prompt of nothing', { prompt: [] }, 'prompt'],
  ['a prompt of objects', { prompt: [{}] }, 'prompt'],
  ['a cap below zero', { prompt: 'Hello', max_tokens: -1 }, 'max_tokens'],
  ['no choices', { prompt: 'Hello', n: 0 }, 'n'],
  ['too many tries', { prompt: 'Hello', best_of: 129 }, 'best_of'],
])('bad input: %s is refused with 422', async (_, body, param) => {
  const refusal = await refusalOf(take({ model: 'gpt-3.5-turbo-instruct', ...body }, completions));
  expect(refusal).toMatchObject({ status: 422, error: { code: 'invalid_field', param } });
});

test.each<[string, number, object, string]>([
  ['no input', 422, {}, 'invalid_field'],
  ['input that is a number', 422, { input: 5 }, 'invalid_field'],
])('a moderation with %s is refused with %i', async (_, status, body, code) => {
  expect(await refusalOf(take(body, moderations))).toMatchObject({ status, error: { code } });
});

test.each<[string, number, object, string]>([
  ['an answer that comes later', 422, { background: true }, 'background'],
  ['no model', 422, { model: undefined }, 'model'],
  ['a cap that is no number', 422, { max_output_tokens: 'many' }, 'max_output_tokens'],
  ['input that is a number', 422, { input: 5 }, 'input'],
  ['an item that is no object', 422, { input: ['Hello'] }, 'input[0]'],
  ['a cap under another spelling', 400, { maxOutputTokens: 9 }, 'maxOutputTokens'],
])('bad input: %s is refused with %i, nothing goes upstream', async (_, status, more, param) => {
  const body = { model: 'gpt-4o-mini', input: 'Hello', ...more };
  const refusal = await refusalOf(take(body, responses));
  expect(refusal).toMatchObject({ status, error: { param, code: expect.any(String) } });
});

test.each<[string, object, string]>([
  ['no text', { input: undefined }, 'input'],
  ['an empty text', { input: '' }, 'input'],
  ['a speed out of bounds', { speed: 9 }, 'speed'],
  ['a speed that is text', { speed: 'fast' }, 'speed'],
])('bad input: %s is refused with 422', async (_, more, param) => {
  const body = { model: 'tts-1', voice: 'alloy', input: 'Hello', ...more };
  const refusal = await refusalOf(take(body, speech));
  expect(refusal).toMatchObject({ status: 422, error: { code: 'invalid_field', param } });
});
