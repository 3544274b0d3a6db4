import { createEventPlaces } from '../../../api/http/event-places';

test('a refused stream is told how many are open, and how many may be by now', () => {
  const { take } = createEventPlaces();
  const open = (key: string, count: number) => {
    for (let n = 0; n < count; n += 1) take('org', key);
  };
  open('first', 25);
  open('second', 12);
  expect(() => take('org', 'first')).toThrow(
    expect.objectContaining({
      code: 'rate_limit_exceeded',
      message:
        'This key has 25 event streams open, and may have at most 19 here at present. Close some of them.',
      details: expect.objectContaining({ rate_limit: expect.objectContaining({ limit: 19 }) }),
    }),
  );
});
