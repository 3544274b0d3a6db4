import { gzipSync } from 'node:zlib';
import { joinedCsv } from '../../console/web/exports/joined';

const packed = (text: string) => async () => new Blob([gzipSync(text)]);

test('days become one file, under the titles of the first', async () => {
  const seen: number[] = [];
  const rows = Array.from({ length: 20_000 }, (_, n) => `${n},"two\nlines"`).join('\n');
  const files = ['id,what\n1,one\n2,two\n', `id,what\n${rows}\n`, 'id,what\n', 'id,what\n9,nine\n'];
  const whole = await joinedCsv(files.map(packed), (done) => seen.push(done));
  expect(await whole.text()).toBe(`id,what\n1,one\n2,two\n${rows}\n9,nine\n`);
  expect(seen).toEqual([1, 2, 3, 4]);
});

test('a file that cannot be read leaves none half written', async () => {
  const broken = async () => new Blob(['no gzip']);
  await expect(joinedCsv([packed('id\n1\n'), broken])).rejects.toThrow();
  expect(await (await joinedCsv([])).text()).toBe('');
});

test('titles that are longer than a step are dropped whole', async () => {
  const titles = 'x'.repeat(70_000);
  const whole = await joinedCsv([packed('a\n1\n'), packed(`${titles}\n2\n`)]);
  expect(await whole.text()).toBe('a\n1\n2\n');
});
