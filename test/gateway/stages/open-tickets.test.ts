import { many } from '../../../domain/sql';
import { chat, post } from '../../support/gateway';
import { CHAT, gateway, makePoor, world } from './poor';

async function ask(key: string, content: string) {
  const answer = await post(`${gateway.url}${CHAT}`, key, chat(content), { 'x-svc-hold-ms': '0' });
  return { ...answer, body: JSON.parse(answer.text) };
}

test('with 50 open tickets a key gets 429 with all its headers, which no SDK repeats; an equal request its ticket', async () => {
  const { key, org_id } = await makePoor();
  const first = await ask(key, 'first');
  expect(first.status).toBe(402);
  await many(
    world.api.db,
    `insert into cost_tickets (id, org_id, key_id, provider, model, request_body_hash, estimated_cost_nanos, currency, reserve, expires_at, created_at)
     select new_id('ticket'), t.org_id, t.key_id, t.provider, t.model, 'x' || n, t.estimated_cost_nanos, t.currency, t.reserve, t.expires_at, t.created_at
     from cost_tickets t cross join generate_series(1, 49) as n where t.org_id = :org_id`,
    { org_id },
  );
  const refused = await ask(key, 'another');
  expect(refused.status).toBe(429);
  expect(refused.body.error).toMatchObject({
    code: 'open_tickets_exceeded',
    type: 'rate_limit_error',
    limit: 50,
  });
  expect(refused.headers).toMatchObject({
    'retry-after': expect.stringMatching(/^\d+$/),
    'x-ratelimit-limit': '50',
    'x-ratelimit-remaining': '0',
    'x-ratelimit-reset': expect.stringMatching(/^\d{10}$/),
    'x-should-retry': 'false',
  });
  const again = await ask(key, 'first');
  expect(again.body.error.cost_ticket.id).toBe(first.body.error.cost_ticket.id);
});
