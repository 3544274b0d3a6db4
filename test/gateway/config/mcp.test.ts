import { parseSettings } from '../../../gateway/config/settings';

beforeAll(() => {
  process.env.TEST_MODELS_KEY = 'upstream-secret';
});

describe('the section mcp', () => {
  const target = {
    id: 'a',
    provider: 'openai',
    shape: 'openai',
    base_url: 'http://127.0.0.1:9/v1',
    api_key_env: 'TEST_MODELS_KEY',
    models: ['m'],
  };
  const row = { name: 'one', url: 'http://127.0.0.1:9/mcp' };

  it.each([
    ['a name twice', [row, row], 'mcp.servers: a name is used twice'],
    [
      'a variable that is not set',
      [{ ...row, api_key_env: 'TEST_NOT_SET' }],
      'mcp.servers[0].api_key_env: the environment variable TEST_NOT_SET is not set',
    ],
    [
      'a secret among headers',
      [{ ...row, headers: { Authorization: 'x' } }],
      'mcp.servers[0].headers: a credential is named in api_key_env',
    ],
    // A request, with its key, goes where these say: to another server of the same address.
    ...[
      'Host',
      'hOsT',
      'X-Forwarded-Host',
      'Forwarded',
      'X-Original-URL',
      'Proxy-Authorization',
    ].map((name): [string, object[], string] => [
      `the header ${name}`,
      [{ ...row, headers: { [name]: 'evil.example' } }],
      'mcp.servers[0].headers: names a header that says where a request goes',
    ]),
    ...['Content-Length', 'content-type', 'Transfer-Encoding', 'Connection', 'TE', 'Expect'].map(
      (name): [string, object[], string] => [
        `the header ${name}`,
        [{ ...row, headers: { [name]: '3' } }],
        'mcp.servers[0].headers: names a header that says where a request goes',
      ],
    ),
    ['a user in its URL', [{ ...row, url: 'http://u:p@127.0.0.1:9/mcp' }], 'mcp.servers[0].url'],
    ['an unknown key', [{ ...row, uri: 'x' }], 'mcp.servers[0].uri: there is no such key'],
    ['a name that is no path', [{ ...row, name: 'a/b' }], 'mcp.servers[0].name'],
  ])('with %s is refused by its path', (_, servers, told) => {
    const settings = { providers: { targets: [target] }, mcp: { servers } };
    expect(() => parseSettings(JSON.stringify(settings))).toThrow(told);
  });
});
