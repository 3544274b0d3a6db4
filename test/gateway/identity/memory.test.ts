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

/** All that has been answered by now is remembered. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('an assertion in use is renewed beside its calls, and a refusal reaches the next call', async () => {
  let now = 0;
  const { who } = createIdentities(() => now);
  let answer: 'first' | 'second' | 'refused' = 'first';
  let asked = 0;
  const ask = async () => {
    asked += 1;
    if (answer === 'refused') throw new AppError('permission_denied', 'Unbound.');
    return { identity: identity(answer), until: now + 40, good_until: now + 5_000 };
  };
  const user = async () => (await who('digest', ask)).user_id;
  expect([await user(), await user(), asked]).toEqual(['first', 'first', 1]);
  now += 50;
  answer = 'second';
  // Nobody waits: this is the old answer, and no promise.
  expect(who('digest', ask)).not.toBeInstanceOf(Promise);
  await settled();
  expect([await user(), asked]).toEqual(['second', 2]);
  now += 50;
  answer = 'refused';
  expect(await user()).toBe('second');
  await settled();
  await expect(user()).rejects.toThrow('Unbound.');
});

test('an answer that may not be used longer is asked for before the call goes on', async () => {
  let now = 0;
  const { who } = createIdentities(() => now);
  let asked = 0;
  const ask = async () => {
    asked += 1;
    return { identity: identity('one'), until: now + 20 };
  };
  await who('digest', ask);
  now += 30;
  expect(who('digest', ask)).toBeInstanceOf(Promise);
  expect(asked).toBe(2);
});
