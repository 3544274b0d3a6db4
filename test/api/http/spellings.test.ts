import { once } from 'node:events';
import { connect } from 'node:net';
import { makeTenant, refusal, startApi, type Tenant, type TestApi } from '../../support/api';
import { gatewayToken } from '../../support/keys';

// Names, bytes and numbers in the spellings that clients know.

let api: TestApi;
let tenant: Tenant;

beforeAll(async () => {
  api = await startApi();
  tenant = await makeTenant(api.db);
});
afterAll(() => api.close());

const issue = (name: string) =>
  api.call('post', '/v1/tokens', {
    key: tenant.owner_key,
    body: { name, token_type: 'access', scopes: [] },
  });

test.each(['.', '..', '%2e', '%2E.', '.%2e', '%2e%2E'])(
  'a key cannot be called %s, as no client could name it again',
  async (name) => {
    expect(refusal(await issue(name))).toEqual({
      status: 422,
      code: 'invalid_field',
      param: 'name',
    });
  },
);

test.each(['...', 'a/b', 'a?b#c', '%2e%2e%2e', '%', 'a.', '😀', '%41'])(
  'a key that is called %s is read, rotated and revoked by the fetch of the web',
  async (name) => {
    expect((await issue(name)).status).toBe(201);
    const at = `${api.url}/v1/tokens/${encodeURIComponent(name)}`;
    const headers = { authorization: `Bearer ${tenant.owner_key}` };
    const read = await fetch(at, { headers });
    expect([read.status, await read.json()]).toMatchObject([200, { name }]);
    expect((await fetch(`${at}/rotate`, { method: 'POST', headers })).status).toBe(201);
    expect((await fetch(at, { method: 'DELETE', headers })).status).toBe(200);
  },
);

/** The status of a body of these bytes. */
async function statusOf(bytes: Buffer, type = 'application/json'): Promise<[string, string]> {
  const { port } = new URL(api.url);
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(
    `POST /v1/organizations/${tenant.org_id}/teams HTTP/1.1\r\nhost: x\r\nconnection: close\r\n` +
      `authorization: Bearer ${tenant.owner_key}\r\ncontent-type: ${type}\r\n` +
      `content-length: ${bytes.length}\r\n\r\n`,
  );
  socket.write(bytes);
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  await once(socket, 'close');
  const text = Buffer.concat(chunks).toString();
  return [text.slice(9, 12), /"code":"(\w+)"/.exec(text)?.[1] ?? ''];
}

test('a body that is not UTF-8 is 400, and one of another charset 415', async () => {
  const latin = Buffer.from('{"name":"caf\u00e9 A"}', 'latin1');
  const cut = Buffer.from('{"name":"caf\u00e9 A"}').subarray(0, 13);
  expect(await statusOf(latin)).toEqual(['400', 'invalid_json']);
  expect(await statusOf(Buffer.concat([cut, Buffer.from('"}')]))).toEqual(['400', 'invalid_json']);
  for (const charset of ['iso-8859-1', '"utf-16"', 'latin1'])
    expect(await statusOf(latin, `application/json; charset=${charset}`)).toEqual([
      '415',
      'unsupported_media_type',
    ]);
  for (const charset of ['utf-8', 'UTF-8', '"utf-8"', 'utf8'])
    expect(
      await statusOf(
        Buffer.from(`{"name":"caf\u00e9 ${charset.replaceAll('"', '-')}"}`),
        `application/json; charset=${charset}`,
      ),
    ).toEqual(['201', '']);
});

test.each([
  ['0', 200],
  ['0.05', 200],
  ['1.5e-7', 200],
  ['1e-9', 200],
  ['1E3', 200],
  ['12.5e+1', 200],
  ['-1', 422],
  ['1e400', 422],
  ['.5', 422],
  ['0x10', 422],
  ['1e', 422],
  ['', 422],
])('an estimated cost of %s in a query is %d', async (number, status) => {
  const path = `/v1/gateway/agents/${tenant.agent_id}/usage-check`;
  const query = new URLSearchParams({ provider: 'p', model: 'm', estimated_cost: number });
  const key = await gatewayToken(api.db);
  expect((await api.call('get', `${path}?${query}`, { key })).status).toBe(status);
});
