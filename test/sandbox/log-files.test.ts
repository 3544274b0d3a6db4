import { once } from 'node:events';
import fs, {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  type WriteStream,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createLogFiles } from '../../sandbox/processes/log-files';
import { until } from '../support/until';

let folder: string;

beforeEach(() => {
  folder = path.join(mkdtempSync(path.join(tmpdir(), 'svc-logs-')), 'logs');
});

afterEach(() => rmSync(path.dirname(folder), { recursive: true }));

function read(name: string): string {
  try {
    return readFileSync(path.join(folder, name), 'utf8');
  } catch {
    return '';
  }
}

test('each process has a file of its own, for our eyes only, that a later start goes on with', async () => {
  createLogFiles(folder).write('api', 'one');
  await until(() => read('api.log') === 'one\n');
  const files = createLogFiles(folder);
  files.write('api', 'two');
  files.write('gateway', 'three');
  await until(() => read('api.log') === 'one\ntwo\n' && read('gateway.log') === 'three\n');
  expect(statSync(path.join(folder, 'api.log')).mode & 0o777).toBe(0o600);
});

test('a file that has grown large makes room for a new one, and no line is lost between them', async () => {
  const files = createLogFiles(folder, 20);
  for (const line of ['first line', 'second line', 'third line']) {
    files.write('api', line);
    await until(() => read('api.log').includes(line));
  }
  expect(read('api.log.1')).toBe('first line\nsecond line\n');
  expect(read('api.log')).toBe('third line\n');
});

test('a file that met a full disk is written again once there is room', async () => {
  mkdirSync(folder);
  const file = path.join(folder, 'api.log');
  symlinkSync('/dev/full', file);
  const files = createLogFiles(folder);
  const opened = jest.spyOn(fs, 'createWriteStream');
  files.write('api', 'lost');
  // Its stream fails beside the process.
  await once(opened.mock.results[0]?.value as WriteStream, 'error');
  rmSync(file);
  await until(() => {
    files.write('api', 'kept');
    return read('api.log').includes('kept\n');
  });
  expect(read('api.log')).not.toContain('lost');
});
