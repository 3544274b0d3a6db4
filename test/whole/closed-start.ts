import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Demo } from '../../sandbox/demo/facts';

/**
 * Each process has no secret of another program, and of the product's only its own; nobody else
 * looks into the data directory.
 */
export function requireClosed({ pids, data_dir }: { pids: Demo['pids']; data_dir: string }): void {
  const { apis, gateways, worker_lifecycle, temporal, postgres } = pids;
  const environment = (pid: number | null) => readFileSync(`/proc/${pid}/environ`, 'utf8');
  const outside = [...gateways, temporal, postgres];
  for (const pid of [...apis, worker_lifecycle, ...outside])
    expect(environment(pid)).not.toContain('SOME_SECRET');
  for (const pid of outside) expect(environment(pid)).not.toMatch(/SVC_SECRETS_KEY|DATABASE_URL/);
  for (const pid of apis) expect(environment(pid)).toMatch(/SVC_SECRETS_KEY/);
  for (const pid of gateways) expect(environment(pid)).toMatch(/SANDBOX_MODELS_KEY/);
  expect(statSync(data_dir).mode & 0o066).toBe(0);
  for (const folder of ['temporal', 'payments', 'logs'])
    expect([folder, statSync(path.join(data_dir, folder)).mode & 0o077]).toEqual([folder, 0]);
}
