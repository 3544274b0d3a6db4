import Redis from 'ioredis';
import { startRedis } from '../../sandbox/servers/redis';
import { until } from './until';

/** A real Redis that a test may freeze, kill and empty. */
export interface BreakableRedis {
  url: string;
  client: Redis;
  /** Still there, and silent, as if packets are dropped. */
  freeze: () => void;
  thaw: () => void;
  kill: () => Promise<void>;
  /** Another one at the same address, empty. */
  restart: () => Promise<void>;
  close: () => Promise<void>;
}

export async function openRedis(): Promise<BreakableRedis> {
  let server = await startRedis();
  const { url } = server;
  const client = new Redis(url, { retryStrategy: () => 50, maxRetriesPerRequest: null });
  client.on('error', () => undefined);
  const port = Number(new URL(url).port);
  return {
    url,
    client,
    freeze: () => void process.kill(server.running.pid, 'SIGSTOP'),
    thaw: () => void process.kill(server.running.pid, 'SIGCONT'),
    async kill() {
      process.kill(server.running.pid, 'SIGKILL');
      await server.running.ended;
    },
    async restart() {
      server = await startRedis(port);
      await until(() => client.status === 'ready');
    },
    async close() {
      client.disconnect();
      process.kill(server.running.pid, 'SIGCONT');
      await server.stop();
    },
  };
}
