import { createServer, type ServerResponse } from 'node:http';
import type { Worker } from '@temporalio/worker';
import { listen } from '../runtime/listen';
import type { Logger } from '../runtime/log';
import { API_VERSION } from '../runtime/version';

/** What of a worker its probes ask: RUNNING from its start to its stop. */
type Watched = Pick<Worker, 'getState'>;

export interface Probes {
  /** Ready once each of so many programs is here and all of their workers run. */
  watch(workers: readonly Watched[]): void;
  close(): void;
}

/**
 * The probes of a process of workers, on a port of their own: `GET /health` is 200 while the
 * process lives, whatever is away; `GET /readyz` is 200 while all its workers take tasks, and 503
 * with the reason before that and as it stops. The form is that of the API's. Throws `ConfigError`
 * if the port is taken.
 */
export async function openProbes(
  { port, host, programs }: { port: number; host?: string | undefined; programs: number },
  log: Logger,
): Promise<Probes> {
  const watched: (readonly Watched[])[] = [];
  const reason = (): string | undefined => {
    if (watched.length < programs) return 'Temporal is not connected yet';
    const states = watched.flat().map((worker) => worker.getState());
    return states.every((state) => state === 'RUNNING') ? undefined : 'the workers stop';
  };
  const server = createServer(({ method, url = '' }, res) => {
    const [path] = url.split('?');
    if ((method !== 'GET' && method !== 'HEAD') || (path !== '/health' && path !== '/readyz'))
      return answer(res, 404, { status: 'not found', reason: 'ask for /health or /readyz' });
    if (path === '/health') return answer(res, 200, { status: 'ok', version: API_VERSION });
    const why = reason();
    if (why === undefined) return answer(res, 200, { status: 'ready' });
    answer(res, 503, { status: 'not ready', reason: why });
  });
  log.info({ port: await listen(server, port, { host, name: 'WORKER' }) }, 'probes listen');
  return {
    watch: (workers) => void watched.push(workers),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function answer(res: ServerResponse, status: number, body: object): void {
  res.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  res.end(JSON.stringify(body));
}
