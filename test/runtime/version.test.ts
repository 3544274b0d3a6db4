import { readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../../runtime/root';
import { API_VERSION, fitsWithApi, rowOf, unfitWords, version_table } from '../../runtime/version';

test('the version is that of the package, and has its row in the table as the current one', () => {
  const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  expect(API_VERSION).toBe(version);
  expect(rowOf(API_VERSION)?.status).toBe('current');
  expect(version_table.filter(({ status }) => status === 'current')).toHaveLength(1);
});

test('each API works with its own minor version and the one before', () => {
  for (const { api, gateways, consoles } of version_table) {
    const [major, minor] = api.split('.').map(Number);
    expect(gateways).toEqual([`${major}.${(minor as number) - 1}`, api]);
    expect(consoles).toEqual(gateways);
  }
});

test.each([
  ['1.5.0', true],
  ['1.5.12', true],
  ['1.4.9', true],
  ['1.4.0-rc.1', true],
  ['1.3.9', false],
  ['1.6.0', false],
  ['2.5.0', false],
  ['1.50.0', false],
  ['1.5', false],
  ['', false],
  ['latest', false],
])('%s fits: %s', (version, fits) => {
  expect(fitsWithApi(version)).toBe(fits);
});

test('words say what this API works with', () => {
  expect(unfitWords('workers', '1.3.9')).toBe(
    'API 1.5 works with workers 1.4 and 1.5, not with 1.3.9.',
  );
});
