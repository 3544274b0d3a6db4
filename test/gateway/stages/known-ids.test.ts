import { createStoredIds } from '../../../gateway/call/stored-ids';

const stored = (id: string, provider = 'openai') => ({ kind: 'response', id, provider });
const named = (id: string, kind = 'response') => ({ kind, id });
const nobody = { org_id: 'a', user_id: null };

test('a gateway knows what its own answers made, of one organization, kind and user', () => {
  const ids = createStoredIds();
  ids.note(nobody, stored('1'));
  ids.note({ org_id: 'a', user_id: 'u' }, stored('2', 'azure'));
  expect(ids.keeperOf(nobody, named('1'))?.provider).toBe('openai');
  expect(ids.keeperOf({ org_id: 'b', user_id: null }, named('1'))).toBeUndefined();
  expect(ids.keeperOf(nobody, named('1', 'file'))).toBeUndefined();
  expect(ids.keeperOf({ org_id: 'a', user_id: 'v' }, named('1'))?.provider).toBe('openai');
  expect(ids.keeperOf(nobody, named('2'))?.provider).toBe('azure');
  expect(ids.keeperOf({ org_id: 'a', user_id: 'u' }, named('2'))?.provider).toBe('azure');
  expect(ids.keeperOf({ org_id: 'a', user_id: 'v' }, named('2'))).toBeUndefined();
  // Whoever makes it again does not take it over.
  ids.note({ org_id: 'a', user_id: 'v' }, stored('2', 'azure'));
  expect(ids.keeperOf({ org_id: 'a', user_id: 'v' }, named('2'))).toBeUndefined();
});

test('it forgets after ten minutes, and never knows more than some thousands', () => {
  let now = 0;
  const ids = createStoredIds(() => now);
  ids.note(nobody, stored('old'));
  now = 599_999;
  ids.note(nobody, stored('new'));
  expect(ids.keeperOf(nobody, named('old'))?.provider).toBe('openai');
  now = 600_000;
  expect(ids.keeperOf(nobody, named('old'))).toBeUndefined();
  for (let at = 0; at < 20_000; at += 1) ids.note(nobody, stored(`${at}`));
  expect(ids.keeperOf(nobody, named('new'))).toBeUndefined();
  expect(ids.keeperOf(nobody, named('0'))?.provider).toBe('openai');
  expect(ids.keeperOf(nobody, named('19999'))?.provider).toBe('openai');
});
