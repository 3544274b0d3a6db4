import { chat, post } from '../../support/gateway';
import { answered, first, openRouted, path, refusedWith, second, world } from './routed';

test('a target that fails every time is left alone for a while, then one request tries', async () => {
  const url = await openRouted({ circuit_breaker: { failures: 2, open_ms: 400 } });
  first.answer = refusedWith(500);
  // Before the circuit opens: however slow the calls are, the wait is not shorter.
  const began = Date.now();
  for (let n = 0; n < 5; n += 1) {
    expect((await post(url + path, world.key, chat('Hello'))).status).toBe(200);
  }
  expect(first.asked.length).toBe(2);
  first.answer = answered;
  while (first.asked.length === 2 && Date.now() - began < 5_000) {
    expect((await post(url + path, world.key, chat('Hello'))).status).toBe(200);
  }
  expect(Date.now() - began).toBeGreaterThanOrEqual(400);
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(200);
  expect(first.asked.length).toBe(4);
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
  expect((await post(url + path, world.key, chat('Hello'))).status).toBe(500);
  const answer = await post(url + path, world.key, chat('Hello'));
  expect(answer.status).toBe(503);
  expect(answer.headers['retry-after']).toBe('60');
  expect([first.asked.length, second.asked.length]).toEqual([1, 1]);
});
