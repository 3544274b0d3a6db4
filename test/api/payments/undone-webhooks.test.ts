import { createHmac } from 'node:crypto';
import { many } from '../../../domain/sql';
import { sandboxAccessB } from '../../../sandbox/payments/b/provider';
import { openPaymentWorld, type PaymentWorld } from '../../support/payments/world';

let world: PaymentWorld;

beforeAll(async () => {
  world = await openPaymentWorld();
});
afterAll(() => world.close());

test('an event whose storing PostgreSQL undoes once is stored, as its body was read once', async () => {
  await many(
    world.db,
    `create sequence stores;
     create function fail_first() returns trigger language plpgsql as $$ begin
       if nextval('stores') = 1 then raise exception 'undone' using errcode = '40001'; end if;
       return new;
     end $$;
     create trigger fail_first before insert on payment_events for each row execute function fail_first()`,
  );
  const object = { id: 'cs_x', object: 'checkout.session', client_reference_id: null };
  const body = JSON.stringify({
    ...{ id: 'evt_undone', object: 'event', type: 'checkout.session.completed' },
    data: { object },
  });
  const at = Math.floor(Date.now() / 1_000);
  const { webhook_secret } = sandboxAccessB;
  const v1 = createHmac('sha256', webhook_secret).update(`${at}.${body}`).digest('hex');
  const answer = await world.call('post', '/v1/payments/webhooks/payment_provider_b', {
    body,
    headers: { 'stripe-signature': `t=${at},v1=${v1}` },
  });
  await many(
    world.db,
    'drop trigger fail_first on payment_events; drop function fail_first; drop sequence stores',
  );
  expect([answer.status, answer.body]).toEqual([200, { received: true }]);
  const stored = await many(world.db, "select status from payment_events where id = 'evt_undone'");
  expect(stored).toHaveLength(1);
});
