import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { runSetup } from '../../api/admin-setup';

function linesOf(...args: string[]): string {
  const lines: string[] = [];
  expect(runSetup(args, (line) => lines.push(line))).toBe(0);
  return lines.join('\n');
}

const place = ['--gateway', 'https://gateway.example.com', '--model', 'claude-sonnet-4-5'];

test('a shell takes what is printed for Claude Code, in a folder of any name', () => {
  const folder = path.join(mkdtempSync(path.join(os.tmpdir(), 'setup-')), 'my shop, "new"');
  mkdirSync(folder);
  const script = `${linesOf('claude-code', ...place)}\nenv`;
  const env = { PATH: process.env.PATH, SVC_GATEWAY_KEY: 'svc_gk_x', ANTHROPIC_API_KEY: 'old' };
  const told = execFileSync('sh', ['-c', script], { cwd: folder, env }).toString();
  expect(told).toContain('ANTHROPIC_BASE_URL=https://gateway.example.com\n');
  expect(told).toContain('ANTHROPIC_AUTH_TOKEN=svc_gk_x\n');
  expect(told).not.toContain('ANTHROPIC_API_KEY');
  expect(told).toContain('ANTHROPIC_CUSTOM_HEADERS=x-svc-tags: project-my-shop---new-\n');
});

test('opencode reads what is printed as JSON, with the key from the environment', () => {
  const [, ...lines] = linesOf('opencode', ...place, '--project', 'shop').split('\n');
  const { provider, model } = JSON.parse(lines.join('\n'));
  expect(model).toBe('svc/claude-sonnet-4-5');
  expect(provider.svc.options).toEqual({
    baseURL: 'https://gateway.example.com/v1/unified',
    apiKey: '{env:SVC_GATEWAY_KEY}',
    headers: { 'x-svc-tags': 'project-shop' },
  });
});

test.each([
  [[], /^Usage: setup/],
  [['emacs', ...place], /Clients: claude-code, codex/],
  [['codex', '--gateway', 'https://g.example'], /^Usage: setup/],
  [['codex', '--gateway', 'https://g.example/v1', '--model', 'm'], /without \/v1/],
  [['cursor', ...place, '--project', 'shop'], /cannot send custom headers/],
  [['codex', '--gateway', 'g.example', '--model', 'm'], /say its origin/],
  [['codex', '--gateway', 'https://g.example', '--model', 'a"\nb'], /--model/],
  [['codex', '--gateway', 'https://g.example', '--model', 'm', '--key', 'x'], /--key/],
  [['codex', ...place], /Codex speaks Responses, which Claude models do not here/],
])('%p is told what to say', (args, words) => {
  expect(() => runSetup(args, () => undefined)).toThrow(words);
});

test.each([
  ['gpt-4o-mini', 'https://gateway.example.com/v1'],
  ['claude-sonnet-4-5', 'https://gateway.example.com/v1/unified'],
])('clients of chat completions ask for %s at %s', (model, base) => {
  const given = ['--gateway', 'https://gateway.example.com', '--model', model];
  expect(linesOf('aider', ...given)).toContain(`OPENAI_API_BASE=${base}\n`);
  expect(linesOf('cursor', ...given)).toContain(`Base URL  ${base}\n`);
  expect(linesOf('opencode', ...given)).toContain(`"baseURL": "${base}"`);
});
