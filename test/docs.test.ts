import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parse, stringify } from 'yaml';
import { parseSettings } from '../gateway/config/settings';
import { root } from '../runtime/root';
import { blocksOf, documents, keeps, stepsOf, textOf } from './support/recipes';

const blocks = documents.flatMap(blocksOf);

// Which test runs the blocks of a language, in all documents; the others are only read.
const runners: Readonly<Record<string, string>> = {
  ts: 'start.test.ts',
  console: 'docs-recipes.test.ts',
  sh: 'docs-recipes.test.ts',
  yaml: 'docs.test.ts',
};
const readers = ['text', 'json', 'mermaid'];

// The two commands of a fresh machine, which the CI and test/start run.
const first_commands = ['npm ci && npm start\n', 'npm ci && npm test\n'];

test('every block of a document is run by a test, or holds nothing that could be', () => {
  const command = /^\s*(\$ |(export|curl|npm|npx|node|jq|psql|pg_\w+|redis-\w+|docker|bash) )/m;
  const stray = blocks.filter(({ language, text, place }) => {
    if (language === '') return !(place.startsWith('README.md') && first_commands.includes(text));
    if (language in runners) return false;
    return !readers.includes(language) || command.test(text);
  });
  expect(stray.map(({ place }) => place)).toEqual([]);
  expect(blocks.filter(({ language }) => language === '')).toHaveLength(first_commands.length);
});

test('what runs a language runs it in all documents', () => {
  for (const [language, runner] of Object.entries(runners)) {
    const ran = blocks.filter((block) => block.language === language);
    expect([language, ran.length > 0]).toEqual([language, true]);
    const found = ['', 'whole/'].map((folder) => path.join(root, 'test', folder, runner));
    const file = found.find((name) => existsSync(name)) as string;
    expect(readFileSync(file, 'utf8')).toMatch(/documents\b/);
  }
});

test('a command is told from its output, and what it printed from what it promised', () => {
  const [block] = blocksOf('docs/tickets.md').filter(({ language }) => language === 'console');
  const steps = stepsOf(block as never);
  expect(steps.map(({ waits }) => waits)).toEqual([false, true]);
  expect(steps[0]?.command).toMatch(/^curl [\s\S]*owner_name, balance\}'$/);
  expect(keeps('{"id":"req_01a2…","balance":3}', '{"id":"req_77ff00","balance":0.25}')).toBe(true);
  expect(keeps('{"id":"req_01a2…","model":"a"}', '{"id":"req_77ff00","model":"b"}')).toBe(false);
});

const configurations = blocks.filter(({ language }) => language === 'yaml');

afterAll(() => {
  delete process.env.GATEWAY_AMBIENT_AUTH;
});

test.each(configurations)('the gateway takes the configuration at $place', ({ text }) => {
  process.env.GATEWAY_AMBIENT_AUTH = 'aws,google,azure';
  const target = {
    id: 'a',
    provider: 'openai',
    shape: 'openai',
    base_url: 'http://127.0.0.1/v1',
    api_key_env: 'MODELS_KEY',
    models: ['gpt-4o'],
  };
  const given = { providers: { targets: [target] }, ...parse(text) };
  const whole = stringify(given);
  for (const [, name = ''] of whole.matchAll(/credentials_file_env: (\w+)/g))
    process.env[name] = serviceAccount();
  for (const [, name = ''] of whole.matchAll(/_env: (\w+)/g)) {
    process.env[name] ??= name === 'REDIS_URL' ? 'redis://127.0.0.1:6379' : 'http://127.0.0.1:4318';
  }
  expect(parseSettings(whole)).toMatchObject({ providers: { targets: expect.anything() } });
});

function serviceAccount(): string {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'svc-docs-')), 'account.json');
  const account = { type: 'service_account', client_email: 'a@b.example', private_key: 'none' };
  writeFileSync(file, JSON.stringify(account));
  return file;
}

test.each(documents)('each link in %s leads to a file, and to a heading of it', (file) => {
  const broken = linksOf(file).filter((link) => !leads(file, link));
  expect(broken).toEqual([]);
});

/** Links within the project; those in fences do not count. */
function linksOf(file: string): string[] {
  const prose = textOf(file).replace(/^```[\s\S]*?^```$/gm, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => !/^[a-z]+:/.test(link));
}

function leads(from: string, link: string): boolean {
  const [target = '', heading] = link.split('#');
  const file = target === '' ? from : path.join(path.dirname(from), target);
  if (!existsSync(path.join(root, file))) return false;
  return heading === undefined || headingsOf(file).includes(heading);
}

function headingsOf(file: string): string[] {
  return [...textOf(file).matchAll(/^#+ (.+)$/gm)].map(([, words = '']) =>
    words
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

test('the README is short, and its table of documents names each', () => {
  const readme = textOf('README.md');
  expect(readme.split('\n').length).toBeLessThanOrEqual(201);
  for (const file of documents.slice(1)) expect(readme).toContain(`](${file})`);
});

test('each document has one title and says in its first sentence what it is about', () => {
  for (const file of documents.slice(1)) {
    expect([file, textOf(file)]).toEqual([file, expect.stringMatching(/^# .+\n\nThis page /)]);
    expect([
      file,
      textOf(file)
        .replace(/^```[\s\S]*?^```$/gm, '')
        .match(/^# /gm),
    ]).toEqual([file, ['# ']]);
  }
});
