import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../../../domain/errors';
import type { Identity } from '../../../domain/people/identity';
import { createIdentities } from '../../../gateway/identity/memory';

function identity(user_id: string): Identity {
  return {
    proof: 'signed_assertion',
    org_id: 'org',
    key_id: null,
    secret_id: null,
    user_id,
    team_id: null,
    agent_id: null,
    allowed_models: null,
  };
}

test('an assertion in use is renewed beside its calls, and a refusal reaches the next call', async () => {
  const { who } = createIdentities();
  let answer: 'first' | 'second' | 'refused' = 'first';
  let asked = 0;
  const ask = async () => {
    asked += 1;
    if (answer === 'refused') throw new AppError('permission_denied', 'Unbound.');
    const now = performance.now();
    return { identity: identity(answer), until: now + 40, good_until: now + 5_000 };
  };
  const user = async () => (await who('digest', ask)).user_id;
  expect([await user(), await user(), asked]).toEqual(['first', 'first', 1]);
  await sleep(50);
  answer = 'second';
  // Nobody waits: this is the old answer, and no promise.
  expect(who('digest', ask)).not.toBeInstanceOf(Promise);
  await sleep(1);
  expect([await user(), asked]).toEqual(['second', 2]);
  await sleep(50);
  answer = 'refused';
  expect(await user()).toBe('second');
  await sleep(1);
  await expect(user()).rejects.toThrow('Unbound.');
});

test('an answer that may not be used longer is asked for before the call goes on', async () => {
  const { who } = createIdentities();
  let asked = 0;
  const ask = async () => {
    asked += 1;
    return { identity: identity('one'), until: performance.now() + 20 };
  };
  await who('digest', ask);
  await sleep(30);
  expect(who('digest', ask)).toBeInstanceOf(Promise);
  expect(asked).toBe(2);
});
