import { call, cost, free, paid, payer, raw, stream, url, world } from './raw';

const ids = [
  '9007199254740993',
  '-9007199254740993',
  '18446744073709551615',
  '0.12345678901234567890',
];

const asking = (id: string, method = 'tools/call') =>
  `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{"name":"work"}}`;

/** What a client is sent back, as text. */
async function textOf(key: string, body: string, at = url): Promise<string> {
  const answer = await call(key, { body, at });
  return answer.body.text();
}

test.each(ids)('the id %s stands in its own text in errors of the gateway', async (id) => {
  const { key } = await payer();
  const mcp = { servers: [{ name: 'away', url: 'http://127.0.0.1:9/mcp' }] };
  const away = await world.openGateway({ settings: { mcp } });
  for (const method of ['ping', 'tools/list'])
    expect(await textOf(key, asking(id, method), `${away.url}/mcp`)).toContain(`"id":${id},`);
  const refused = await textOf(key, asking(id).replace('work', ''));
  expect(refused).toContain(`"id":${id},`);
  const batch = await textOf(
    key,
    `[${asking(id, 'ping')},${asking('"a"', 'ping')}]`,
    `${away.url}/mcp`,
  );
  expect(batch).toContain(`"id":${id},`);
});

test.each(ids)(
  'an answer to the id %s is paid for, in its own text or as servers round it',
  async (id) => {
    for (const back of [id, JSON.stringify(JSON.parse(id))]) {
      const { org_id, key } = await payer();
      const result = `{"jsonrpc":"2.0","id":${back},"result":{"content":[]}}`;
      raw.answer = (_, res, body) => {
        expect(body).toBe(asking(id));
        res.writeHead(200, { 'content-type': 'application/json' }).end(result);
      };
      expect(await textOf(key, asking(id))).toBe(result);
      expect(await cost(org_id)).toBe(paid);
      raw.answer = (_, res) => {
        stream(res);
        res.end(`data: ${result}\n\n`);
      };
      expect(await textOf(key, asking(id))).toBe(`data: ${result}\n\n`);
      expect(await cost(org_id)).toBe(paid);
    }
  },
);

test.each(ids)('a stream that ends without an answer to %s says so under that id', async (id) => {
  const { org_id, key } = await payer();
  raw.answer = (_, res) => {
    stream(res);
    res.end();
  };
  expect(await textOf(key, asking(id))).toContain(`"id":${id},"error"`);
  expect(await cost(org_id)).toBe(free);
});

test('two ids of a batch that a server may take for one are refused', async () => {
  const { key } = await payer();
  const batch = `[${asking('9007199254740993', 'ping')},${asking('9007199254740992', 'ping')}]`;
  expect((await call(key, { body: batch })).statusCode).toBe(400);
});

test.each(['9007199254740993', '[9007199254740993]', '1e400'])(
  'a number is no message: %s',
  async (body) => {
    const { key } = await payer();
    expect((await call(key, { body })).statusCode).toBe(400);
  },
);
