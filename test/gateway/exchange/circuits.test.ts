import { chat, post } from '../../support/gateway';
import { until } from '../../support/until';
import { answered, first, openRouted, path, refusedWith, second, world } from './routed';

test('a target that fails every time is left alone for a while, then one request tries', async () => {
  // Calls that take longer than the circuit is open prove nothing.
  for (const open_ms of [400, 4_000, 40_000]) {
    const url = await openRouted({ circuit_breaker: { failures: 2, open_ms } });
    const ask = async () => (await post(url + path, world.key, chat('Hello'))).status;
    first.asked = [];
    first.answer = refusedWith(500);
    // Before the circuit opens: however slow the calls are, the wait is not shorter.
    const began = Date.now();
    for (let n = 0; n < 5; n += 1) expect(await ask()).toBe(200);
    if (Date.now() - began >= open_ms && open_ms < 40_000) continue;
    expect(first.asked.length).toBe(2);
    first.answer = answered;
    await until(async () => {
      expect(await ask()).toBe(200);
      return first.asked.length > 2;
    });
    expect(Date.now() - began).toBeGreaterThanOrEqual(open_ms);
    expect(await ask()).toBe(200);
    expect(first.asked.length).toBe(4);
    return;
  }
});

test('a target that breaks every stream off is left alone too', async () => {
  const url = await openRouted({ circuit_breaker: { failures: 2, open_ms: 60_000 } });
  first.answer = (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write('data: {"id":"x","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n');
    setTimeout(() => res.destroy(), 20);
  };
  for (let n = 0; n < 2; n += 1) {
    const { text } = await post(url + path, world.key, chat('Hello', { stream: true }));
    expect(text).toContain('upstream_failed');
  }
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(200);
  expect([first.asked.length, second.asked.length]).toEqual([2, 1]);
});

test('where every circuit is open the client is told when to come again, and nothing is held', async () => {
  const url = await openRouted({ circuit_breaker: { failures: 1, open_ms: 60_000 } });
  first.answer = refusedWith(500);
  second.answer = refusedWith(500);
  const began = Date.now();
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(500);
  const answer = await post(url + path, world.key, chat('Hello'));
  expect(answer.status).toBe(503);
  const retry_after = Number(answer.headers['retry-after']);
  expect(retry_after).toBeLessThanOrEqual(60);
  expect(retry_after).toBeGreaterThanOrEqual(60 - Math.ceil((Date.now() - began) / 1_000));
  expect([first.asked.length, second.asked.length]).toEqual([1, 1]);
});
