import { checkJson, createDlp } from '../../../gateway/policy/dlp';

// A tool's input is its model's or its client's, whatever its members are called; so is a document
// of plain text.

const both: ('input' | 'output')[] = ['input', 'output'];
const settings = {
  stages: both,
  blocked_terms: ['apollo'],
  detect_patterns: ['us_ssn', 'credit_card'] as ('us_ssn' | 'credit_card')[],
};
const use = (input: object) =>
  JSON.stringify({ content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input }] });
const document = (more: object) =>
  JSON.stringify({
    messages: [{ role: 'user', content: [{ type: 'document', source: { ...more } }] }],
  });
const base64_like = (said: string) => `${'x_'.repeat(520)}${said}`;

test.each<[string, string]>([
  ['a label', use({ id: '123-45-6789' })],
  ['another label', use({ status: 'apollo' })],
  ['a number', use({ card: 4111111111111111 })],
  ['a number in a list', use({ cards: [1, [4111111111111111]] })],
  ['a name', use({ apollo: true })],
  ['a name below', use({ list: [{ type: { apollo: 1 } }] })],
  ['what may be Base64', use({ data: base64_like('123-45-6789') })],
  [
    'a text',
    document({ type: 'text', media_type: 'text/plain', data: base64_like('123-45-6789') }),
  ],
  ['a text whose type comes last', document({ data: base64_like('apollo'), type: 'text' })],
])('%s is looked at', async (_, text) => {
  const blocked = await checkJson(createDlp({ ...settings, action: 'block' }), text);
  expect(blocked.rule).toMatch(/us_ssn|credit_card|blocked_terms/);
  const { text: redacted = '' } = await checkJson(
    createDlp({ ...settings, action: 'redact' }),
    text,
  );
  expect(redacted).not.toMatch(/123-45-6789|apollo|4111111111111111/);
  expect(() => JSON.parse(redacted)).not.toThrow();
});

test.each<[string, string]>([
  ['the id of the call', JSON.stringify({ content: [{ type: 'tool_use', id: 'apollo' }] })],
  ['a picture', document({ type: 'base64', data: base64_like('apollo') })],
  ['a count', JSON.stringify({ usage: { input_tokens: 4111111111111111 } })],
  ['a short number', use({ count: 12345 })],
])('%s is not looked at', async (_, text) => {
  expect(await checkJson(createDlp({ ...settings, action: 'block' }), text)).toEqual({ text });
});
