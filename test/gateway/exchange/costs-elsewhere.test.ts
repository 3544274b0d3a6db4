import { decimalText } from '../../../domain/money';
import { chat, gatewayKey, lastCharge, post } from '../../support/gateway';
import { credit, makeOrg, makePrice } from '../../support/ledger';
import { ask } from './costly';
import { first, openRouted, path, refusedWith, second, world } from './routed';

// What a call cost that another target answered, and in another currency.

/** The cost that an answer tells, in its own digits. */
const toldIn = (text: string) => ({
  cost: /"cost":([0-9.]+)/.exec(text)?.[1],
  lines: JSON.parse(text).usage.cost_details.lines.map(({ what }: { what: string }) => what),
});

test('a call that fell back to another model tells the price of that one, and of one answer', async () => {
  const url = await openRouted({
    second_models: ['gpt-4o'],
    model_groups: [{ name: 'smart', models: ['gpt-4o-mini', 'gpt-4o'] }],
  });
  first.answer = refusedWith(500);
  const answer = await post(url + path, world.key, { ...chat('Hi'), model: 'smart' }, ask);
  expect([answer.status, second.asked]).toEqual([200, ['gpt-4o']]);
  expect(toldIn(answer.text)).toEqual({ cost: '0.00314', lines: ['input', 'output'] });
  const { actual_cost_nanos } = await lastCharge(world, world.org.org_id);
  expect(actual_cost_nanos).toBe(3_140_000n);
});

test('a cost with more digits than a number has is told to the nano', async () => {
  const { db } = world.api;
  await db('exchange_rates').insert({
    ...{ currency: 'VND', rate: '26000.123456789', updated_at: new Date() },
  });
  // 500 USD a thousand tokens.
  await makePrice(db, { model: 'dear', input_per_1m: 500_000, output_per_1m: 0.0001 });
  const org = await makeOrg(db, { currency: 'VND' });
  await credit(db, org.org_id, org.org_wallet, 8n * 10n ** 18n);
  const key = await gatewayKey(world.api, org.org_id);
  const url = await openRouted({ first_models: ['dear'], second_models: ['dear'] });
  // The estimate of an answer bounds what it may cost: as many tokens are asked as it says.
  const long = chat('word '.repeat(1_500), { model: 'dear' });
  const answer = await post(url + path, key, long, ask);
  expect(answer.status).toBe(200);
  const { actual_cost_nanos } = await lastCharge(world, org.org_id);
  expect(actual_cost_nanos).toBeGreaterThan(BigInt(Number.MAX_SAFE_INTEGER));
  expect(toldIn(answer.text).cost).toBe(decimalText(actual_cost_nanos));
  expect(answer.headers).toMatchObject({
    'x-svc-cost': decimalText(actual_cost_nanos),
    'x-svc-cost-currency': 'VND',
  });
});
