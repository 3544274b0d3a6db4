import { type ReadPart, readWhole } from '../../console/web/api/whole';

/** A list of so many numbers, in pages of three. */
const listOf =
  (count: number): ReadPart<number> =>
  async (place = '0') => {
    const from = Number(place);
    const items = [from, from + 1, from + 2].filter((one) => one < count);
    return { items, next: from + 3 < count ? String(from + 3) : null };
  };

test.each([0, 1, 3, 7, 9])('a list of %s rows is read to its end', async (count) => {
  const { items, is_whole } = await readWhole(listOf(count));
  expect(items).toEqual([...Array(count).keys()]);
  expect(is_whole).toBe(true);
});

test.each([
  [7, 6, false],
  [7, 7, true],
  [7, 2, false],
])(
  'of %s rows the first %s are kept, and whether that is all is said',
  async (count, most, whole) => {
    const { items, is_whole } = await readWhole(listOf(count), { most });
    expect(items).toEqual([...Array(Math.min(count, most)).keys()]);
    expect(is_whole).toBe(whole);
  },
);

test.each([
  [7, 9, [3, 6, 7]],
  [7, 5, [3, 5]],
  [0, 9, [0]],
])('of %s rows, at most %s, is told how many were read so far', async (count, most, told) => {
  const heard: number[] = [];
  await readWhole(listOf(count), { most, onRows: (rows) => heard.push(rows) });
  expect(heard).toEqual(told);
});

test('whoever leaves the page stops the reading', async () => {
  const leaving = new AbortController();
  const read: ReadPart<number> = async (place) => {
    if (place !== undefined) leaving.abort();
    return listOf(100)(place);
  };
  await expect(readWhole(read, { signal: leaving.signal })).rejects.toThrow('aborted');
});
