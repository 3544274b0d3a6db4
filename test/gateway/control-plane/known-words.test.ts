import { createServer, type Server } from 'node:http';
import { json } from 'node:stream/consumers';
import { request } from 'undici';
import type { BatchItem, BatchLine } from '../../../domain/ledger/calls';
import { listen } from '../../../runtime/listen';
import { chat, lastCharge, openWorld, post, type World } from '../../support/gateway';

// A control plane of the version before refuses members that it does not know; nothing is lost of
// the calls of a gateway that runs before it.

let world: World;
let older: Server;
let older_url: string;
/** What the older API was sent in the words that it knows. */
const taken: string[] = [];

beforeAll(async () => {
  world = await openWorld();
  older = createServer(async (req, res) => {
    const body = (req.method === 'POST' ? await json(req) : undefined) as Body | undefined;
    const passOn = async (rest: object | undefined) => {
      const answer = await request(`${world.api.url}${req.url}`, {
        method: req.method as 'POST',
        headers: {
          authorization: req.headers.authorization ?? '',
          'x-svc-gateway-version': '1.5.0',
          ...(rest ? { 'content-type': 'application/json' } : {}),
        },
        body: rest ? JSON.stringify(rest) : null,
      });
      return { status: answer.statusCode, text: await answer.body.text() };
    };
    if (body?.items && req.url?.endsWith('/batch')) {
      const known = body.items.filter((item) => !isNew(item.body));
      taken.push(...known.map(({ op }) => op));
      const unknown = body.items.filter((item) => isNew(item.body));
      const lines = unknown.map(({ id }): BatchLine => ({ id, status: 422, body: refusal }));
      const answered = known.length === 0 ? '' : (await passOn({ items: known })).text;
      res.writeHead(200, { 'content-type': 'application/x-ndjson' });
      res.end(`${lines.map((line) => `${JSON.stringify(line)}\n`).join('')}${answered}`);
      return;
    }
    if (body !== undefined && isNew(body)) {
      res.writeHead(422, { 'content-type': 'application/json' });
      res.end(JSON.stringify(refusal));
      return;
    }
    if (req.url?.endsWith('/redeem-ticket')) taken.push('redeem');
    const { status, text } = await passOn(body);
    res.writeHead(status, { 'content-type': 'application/json' });
    res.end(text);
  });
  older_url = `http://127.0.0.1:${await listen(older, 0)}`;
});

afterAll(async () => {
  await world.close();
  older.closeAllConnections();
  await new Promise((resolve) => older.close(resolve));
});

interface Body {
  items?: BatchItem[];
}

const isNew = (body: object) => 'trace_label' in body || 'identity_proof_method' in body;

const refusal = {
  type: 'error',
  error: {
    code: 'unknown_field',
    message: 'trace_label is not a known field.',
    type: 'invalid_request_error',
    param: 'trace_label',
  },
};

test('calls reserve and settle to their real cost, and a ticket is redeemed', async () => {
  const gateway = await world.openGateway({ api_urls: [older_url] });
  const url = `${gateway.url}/v1/chat/completions`;
  const { status } = await post(url, world.key, chat('Hello'));
  expect(status).toBe(200);
  const charge = await lastCharge(world, world.org.org_id);
  expect(charge).toMatchObject({ status: 'settled', usage_source: 'upstream' });
  const dear = chat('Hello', { max_tokens: 300_000_000 });
  const short = await post(url, world.key, dear);
  expect(short.status).toBe(402);
  const { id } = JSON.parse(short.text).cost_ticket;
  const again = await post(url, world.key, dear, { 'x-svc-cost-ticket': id });
  expect(again.status).toBe(402);
  await gateway.close();
  expect(taken).toEqual(['reserve', 'settle', 'reserve', 'redeem']);
});
