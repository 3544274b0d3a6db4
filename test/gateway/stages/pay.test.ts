import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { one } from '../../../domain/sql';
import { chat, post } from '../../support/gateway';
import {
  ask,
  CHAT,
  decide,
  gateway,
  makePoor,
  ticketsOf,
  topUp,
  untilWaiting,
  world,
} from './poor';

test('a call that no wallet covers waits, and is answered by the model once somebody tops up', async () => {
  const poor = await makePoor();
  const answer = ask(poor, 'held until paid');
  await untilWaiting(poor);
  await topUp(poor);
  expect(await answer).toMatchObject({ status: 200 });
  expect(JSON.parse((await answer).text).choices[0].message.content).toBeTruthy();
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'redeemed' }]);
});

test('a held stream starts when its ticket is approved, and nothing is missing from it', async () => {
  const poor = await makePoor();
  const answer = post(gateway.url + CHAT, poor.key, chat('stream later', { stream: true }));
  await untilWaiting(poor);
  expect((await decide(poor, 'approve')).status).toBe(200);
  const { status, text } = await answer;
  expect(status).toBe(200);
  expect(text).toMatch(/data: \[DONE\]\n\n$/);
  const { balance } = await one<{ balance: bigint }>(
    world.api.db,
    'select balance_nanos + reserved_nanos as balance from wallets where id = :id',
    { id: poor.org_wallet },
  );
  expect(balance).toBeGreaterThan(0n);
});

test('a denied call is told at once: 403 with the reason, and no SDK tries again', async () => {
  const poor = await makePoor();
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: poor.key });
  const answer = client.chat.completions.create(chat('not today') as never).catch((e) => e);
  await untilWaiting(poor);
  await decide(poor, 'deny', { reason: 'out of budget' });
  expect(await answer).toMatchObject({ status: 403, code: 'ticket_denied' });
  expect((await answer).message).toContain('out of budget');
});

test('both official SDKs carry ticket, shortfall and expiry of a 402 in their exceptions, and ask once', async () => {
  const poor = await makePoor();
  const headers = { 'x-svc-hold-ms': '0' };
  const openai = new OpenAI({
    baseURL: `${gateway.url}/v1`,
    apiKey: poor.key,
    defaultHeaders: headers,
  });
  const refused = await openai.chat.completions.create(chat('a') as never).catch((e) => e);
  const anthropic = new Anthropic({
    baseURL: gateway.url,
    authToken: poor.key,
    apiKey: null,
    defaultHeaders: headers,
  });
  const other = await anthropic.post(CHAT, { body: chat('b') }).catch((e: unknown) => e);
  const expected = {
    id: expect.stringMatching(/^ticket_/),
    shortfall: expect.any(Number),
    expires_at: expect.stringMatching(/Z$/),
  };
  expect([refused.status, refused.error.cost_ticket]).toEqual([
    402,
    expect.objectContaining(expected),
  ]);
  expect(other).toMatchObject({ status: 402, error: { error: { cost_ticket: expected } } });
  expect(await ticketsOf(poor)).toHaveLength(2);
});

test('the hold ends after the time that the request names: 402, and the ticket stays open', async () => {
  const poor = await makePoor();
  const started_at = performance.now();
  const answer = await ask(poor, 'short hold', { 'x-svc-hold-ms': '400' });
  const took_ms = performance.now() - started_at;
  expect(answer.status).toBe(402);
  // The time of the configuration would be ten minutes.
  expect(took_ms).toBeGreaterThanOrEqual(390);
  expect(answer.headers['x-should-retry']).toBe('false');
  expect(await ticketsOf(poor)).toMatchObject([{ status: 'open' }]);
  await topUp(poor);
  const { reserved } = await one<{ reserved: bigint }>(
    world.api.db,
    'select reserved_nanos as reserved from wallets where id = :id',
    { id: poor.org_wallet },
  );
  expect(reserved).toBe(0n);
});

test('the same body with its ticket redeems later; another body, a used or a foreign ticket is refused without a hold', async () => {
  const poor = await makePoor();
  const refused = await ask(poor, 'come back', { 'x-svc-hold-ms': '0' });
  const { id } = JSON.parse(refused.text).cost_ticket;
  const bring = { 'x-svc-cost-ticket': id };
  await topUp(poor);
  expect((await ask(poor, 'something else', bring)).status).toBe(409);
  const stranger = await makePoor();
  expect((await ask(stranger, 'come back', bring)).status).toBe(404);
  expect((await ask(poor, 'come back', bring)).status).toBe(200);
  const again = await ask(poor, 'come back', bring);
  expect([again.status, JSON.parse(again.text).error.code]).toEqual([409, 'ticket_redeemed']);
  expect((await ask(poor, 'come back', { 'x-svc-cost-ticket': 'x'.repeat(201) })).status).toBe(422);
});

test.each([['-1'], ['1.5'], ['soon'], ['600001'], ['']])(
  'x-svc-hold-ms %p is refused by name, before any money moves',
  async (value) => {
    const poor = await makePoor();
    const answer = await ask(poor, 'how long', { 'x-svc-hold-ms': value });
    expect(answer.status).toBe(422);
    expect(JSON.parse(answer.text).error.param).toBe('x-svc-hold-ms');
    expect(await ticketsOf(poor)).toEqual([]);
  },
);
