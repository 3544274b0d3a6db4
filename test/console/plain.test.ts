import { plainWords } from '../../console/web/base/plain';

test.each([
  [
    'Your organization does not let members make keys. Ask an admin for a key, or to allow it: PUT /v1/organizations/{id}/member-keys.',
    'Your organization does not let members make keys. Ask an admin for a key, or to allow it.',
  ],
  [
    'max_budget is above what your organization allows. Ask for less, or ask an admin: GET /v1/organizations/{id}/member-keys shows the limits.',
    'max_budget is above what your organization allows. Ask for less, or ask an admin.',
  ],
  [
    'There is no price for this region. Ask for another one, or for a price of it: regions of PUT /v1/admin/model-pricing/{id}.',
    'There is no price for this region. Ask for another one, or for a price of it.',
  ],
  [
    'This export is not completed yet. GET /v1/exports/{id} says how far it is.',
    'This export is not completed yet.',
  ],
  [
    'Repeat this: it resumes the session. If this lasts, a platform admin sees why: GET /v1/admin/payments.',
    'Repeat this: it resumes the session. If this lasts, a platform admin sees why.',
  ],
  ['Use POST /v1/tokens.', 'Use POST /v1/tokens.'],
  ['The wallet has 1.5 USD: too little.', 'The wallet has 1.5 USD: too little.'],
])('%s', (said, plain) => {
  expect(plainWords(said)).toBe(plain);
});
