import { startApi, type TestApi } from '../../support/api';
import { platformKey } from '../../support/keys';

let api: TestApi;
let key: string;

beforeAll(async () => {
  api = await startApi();
  key = await platformKey(api.db);
});
afterAll(() => api.close());

test.each([
  ['1.5.0', 200],
  ['1.5.99', 200],
  ['1.4.0', 200],
  ['1.3.9', 426],
  ['1.6.0', 426],
  ['2.5.0', 426],
  ['latest', 426],
])('a console %s is answered %i', async (version, status) => {
  const headers = { authorization: `Bearer ${key}`, 'x-svc-console-version': version };
  for (const path of ['/v1/me', '/v1/issuers']) {
    const answer = await fetch(`${api.url}${path}`, { headers });
    expect([path, answer.status]).toEqual([path, status]);
    if (status !== 426) continue;
    expect(await answer.json()).toMatchObject({
      error: {
        code: 'version_not_supported',
        message: `API 1.5 works with consoles 1.4 and 1.5, not with ${version}.`,
      },
    });
  }
});
