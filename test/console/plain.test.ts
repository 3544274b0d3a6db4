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
  [
    'The files of 50 exports are kept here, and no more may. The oldest are deleted on 2026-12-03T00:00:00.000Z, or by DELETE /v1/exports/{id}; a bucket of your own has no such bound.',
    'The files of 50 exports are kept here, and no more may. The oldest are deleted on 2026-12-03T00:00:00.000Z; a bucket of your own has no such bound.',
  ],
  [
    'A destination gets 5 tests a minute. Look how they fare at GET /v1/notice-messages, and send the next one after Retry-After.',
    'A destination gets 5 tests a minute. Look how they fare, and send the next one after Retry-After.',
  ],
  ['Name a model in "model", as GET /v1/models lists them.', 'Name a model in "model".'],
  ['Use POST /v1/tokens.', 'Use POST /v1/tokens.'],
  ['The wallet has 1.5 USD: too little.', 'The wallet has 1.5 USD: too little.'],
])('%s', (said, plain) => {
  expect(plainWords(said)).toBe(plain);
});
