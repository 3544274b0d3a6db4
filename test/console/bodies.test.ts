import {
  cookieOf,
  jsonOf,
  startConsole,
  startListener,
  type TestConsole,
} from '../support/console/server';

// What the console writes anew for the API says nothing that the API would not have taken.

let api: Awaited<ReturnType<typeof startListener>>;
let web: TestConsole;
let cookie: string;

beforeAll(async () => {
  api = await startListener();
  web = await startConsole(api.url);
  cookie = cookieOf(await web.ask('POST', '/api/session', { body: { access_key: 'svc_ak_own' } }));
  api.heard.length = 0;
});
afterAll(() => Promise.all([web.close(), api.close()]));

const heard = () => api.heard.filter(({ url }) => url !== '/health');

test.each<[string, string | Buffer, string, number, string]>([
  ['a number beyond all', '{"amount":1e400}', 'application/json', 422, 'invalid_field'],
  ['a number below all', '{"a":[{"b":-1e999}]}', 'application/json', 422, 'invalid_field'],
  ['a member twice', '{"amount":1,"amount":100}', 'application/json', 400, 'invalid_request'],
  [
    'another text',
    Buffer.from('7b226e223a22e9227d', 'hex'),
    'application/json',
    400,
    'invalid_json',
  ],
  [
    'another character set',
    '{"n":"x"}',
    'application/json; charset=iso-8859-1',
    415,
    'unsupported_media_type',
  ],
])(
  '%s in a body is refused as the API would, and goes nowhere',
  async (_, body, type, status, code) => {
    const headers = {
      ...{ cookie, 'x-svc-console': '1', 'sec-fetch-site': 'same-origin', 'content-type': type },
    };
    const answer = await fetch(`${web.url}/api/wallets/credit`, { method: 'POST', headers, body });
    expect([answer.status, (await jsonOf(answer)).error.code]).toEqual([status, code]);
    expect(heard()).toEqual([]);
  },
);
