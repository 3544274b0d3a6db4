import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from './calls';
import { callerOf, type Part, type Tenant } from './world';

const CALLERS = 4;
const PAUSE_MS = 20;

/** Who gets new requests, as a balancer has it that looks at /readyz. */
export interface InRotation {
  apis: Part[];
  gateways: Part[];
}

/**
 * Priced calls, every fifth of them a stream, and looks at the balance, without a pause until it is
 * ended; each goes to the next process in rotation, once.
 */
export function startLoad(rotation: InRotation, tenant: Tenant) {
  let is_ending = false;
  const sum = { calls: 0, looks: 0, failures: [] as string[] };
  const next = (parts: Part[], n: number) => parts[n % parts.length] as Part;
  const caller = async (nth: number) => {
    for (let n = nth; !is_ending; n += 1) {
      const gateway = next(rotation.gateways, n);
      const stream = n % 5 === 0;
      const call = await ask(gateway, tenant, { stream }).catch((error) => ({
        status: 0,
        text: `${error} ${error.cause}`,
      }));
      const is_whole = call.text.includes(stream ? '[DONE]' : '"usage"');
      sum.calls += 1;
      if (call.status !== 200 || !is_whole)
        sum.failures.push(`${gateway.name}: ${call.status} ${call.text.slice(-300)}`);
      await sleep(PAUSE_MS);
    }
  };
  const looker = async () => {
    for (let n = 0; !is_ending; n += 1) {
      const api = next(rotation.apis, n);
      const look = await callerOf(api)('get', '/v1/wallets/balance', { key: tenant.billing }).catch(
        (error) => ({ status: 0, body: `${error} ${error.cause}` }),
      );
      sum.looks += 1;
      if (look.status !== 200)
        sum.failures.push(`${api.name}: ${look.status} ${JSON.stringify(look.body)}`);
      await sleep(PAUSE_MS);
    }
  };
  const running = [looker(), ...Array.from({ length: CALLERS }, (_, nth) => caller(nth))];
  return {
    sum,
    /** Resolves once the last answers are there. */
    async end() {
      is_ending = true;
      await Promise.all(running);
      return sum;
    },
  };
}
