import { createBreaker } from '../../../gateway/upstreams/breaker';

test('a breaker lets one request try when its time is over, and the others wait for its end', () => {
  let now = 0;
  const breaker = createBreaker({ enabled: true, failures: 2, open_ms: 100 }, () => now);
  breaker.failed();
  breaker.succeeded();
  breaker.failed();
  expect(breaker.mayPass()).toBe(true);
  breaker.failed();
  expect([breaker.mayPass(), breaker.opensIn()]).toEqual([false, 100]);
  now = 100;
  expect([breaker.mayPass(), breaker.mayPass()]).toEqual([true, false]);
  breaker.abandoned();
  expect(breaker.mayPass()).toBe(true);
  breaker.answered();
  expect([breaker.mayPass(), breaker.mayPass()]).toEqual([true, true]);
  breaker.failed();
  breaker.failed();
  now = 200;
  expect(breaker.mayPass()).toBe(true);
  breaker.failed();
  expect([breaker.mayPass(), breaker.opensIn()]).toEqual([false, 100]);
  now = 300;
  expect(breaker.mayPass()).toBe(true);
  breaker.succeeded();
  expect([breaker.mayPass(), breaker.mayPass(), breaker.opensIn()]).toEqual([true, true, 0]);
});
