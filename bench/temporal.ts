import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from '../sandbox/processes/ports';
import { launch } from '../sandbox/processes/processes';
import { pollersOf, prepareTemporal } from '../sandbox/servers/temporal';

/** A Temporal server that keeps its workflows in a file, as `npm start` has one. */
export async function startTemporal() {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-bench-temporal-'));
  const [port = 0, ui_port = 0] = await freePorts(2);
  const server = await launch(await prepareTemporal({ folder, port, ui_port }));
  const address = `127.0.0.1:${port}`;
  return {
    address,
    /** Waits until workers ask it for work of these queues; fails once one of the workers ends. */
    async workersFor(queues: readonly string[], workers: readonly ChildProcess[]) {
      for (const queue of queues) {
        while ((await pollersOf({ address }, queue)).length === 0) {
          if (workers.some(({ exitCode }) => exitCode !== null))
            throw new Error(`A worker ended before it asked for work of ${queue}.`);
          await sleep(200);
        }
      }
    },
    async stop() {
      await server.stop(5_000);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
