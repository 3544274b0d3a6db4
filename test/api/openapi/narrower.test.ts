import { openapi } from '../../../api/openapi/document';
import { type Document, narrowed } from './narrower';
import { released } from './released';

const now = (): Document => JSON.parse(JSON.stringify(openapi()));

// A tier that 1.4 could not describe leaves out what its price does not have; those of 1.4 have it.
const tiers = [
  'GET /v1/model-pricing: 200.models[].tiers[]',
  'GET /v1/admin/model-pricing: 200.models[].tiers[]',
  'POST /v1/admin/model-pricing: 201.tiers[]',
  'PUT /v1/admin/model-pricing/{id}: 200.tiers[]',
].flatMap((at) =>
  ['input_per_1m', 'output_per_1m'].map((name) => `${at}: ${name} may be absent now`),
);
// Any number of JSON that is not negative; 1.4 took fewer of them.
const wider =
  'GET /v1/gateway/agents/{id}/usage-check: estimated_cost: the pattern ' +
  '^(0|[1-9]\\d{0,20})(\\.\\d{1,40})?([eE][+-]?\\d{1,3})?$ is new';

test('nothing that 1.4 has is gone or narrower, but for what is listed here', () => {
  expect(narrowed(released(), now())).toEqual([...tiers, wider]);
});

/** What stands at a place of a description. */
const at = (document: Document, ...keys: string[]) =>
  keys.reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], document);

const balance = ['paths', '/v1/wallets/balance'];
const schemaOf = ['content', 'application/json', 'schema'];

test.each<[string, string, (document: Document) => void]>([
  [
    'a path',
    'GET /v1/wallets/balance is gone',
    ({ paths }) => {
      delete paths['/v1/wallets/balance'];
    },
  ],
  [
    'a parameter',
    'GET /v1/events: the parameter since is gone',
    (document) => {
      const list = at(document, 'paths', '/v1/events', 'get', 'parameters') as { name: string }[];
      const [since] = list.filter(({ name }) => name === 'since');
      Object.assign(since as object, { name: 'from' });
    },
  ],
  [
    'a member that an answer had',
    'GET /v1/wallets/balance: 200: currency is gone',
    (document) => {
      const place = [...balance, 'get', 'responses', '200', ...schemaOf, 'properties'];
      delete (at(document, ...place) as Record<string, object>).currency;
    },
  ],
  [
    'a member that a body must have now',
    'POST /v1/wallets/credit: body: description is required now',
    (document) => {
      const place = ['/v1/wallets/credit', 'post', 'requestBody', ...schemaOf, 'required'];
      (at(document, 'paths', ...place) as string[]).push('description');
    },
  ],
  [
    'a bound',
    'POST /v1/wallets/credit: body.description: maxLength is 10, and was 1000',
    (document) => {
      const place = ['/v1/wallets/credit', 'post', 'requestBody', ...schemaOf, 'properties'];
      Object.assign(at(document, 'paths', ...place, 'description') as object, { maxLength: 10 });
    },
  ],
])('%s is found', (_, words, spoil) => {
  const spoiled = now();
  spoil(spoiled);
  expect(narrowed(released(), spoiled)).toContain(words);
});
