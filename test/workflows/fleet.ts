import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { request } from 'undici';
import { type Configuration, openConfiguration } from '../../gateway/configuration';
import { listen } from '../../runtime/listen';
import { chat, post, type TestGateway, type World } from '../support/gateway';
import { until } from '../support/until';

/** Gateways of one group over one control plane, each with a file of its own. */
export interface Fleet {
  gateways: (TestGateway & { configuration: Configuration })[];
  /** A configuration for the control plane; `base_url` may name another upstream. */
  configured: (more?: object, target?: object) => Record<string, unknown>;
  close: () => Promise<void>;
}

/** A second variable that a gateway may lack. */
export const EXTRA_VARIABLE = 'TEST_EXTRA_KEY';

/** Opens so many; those named in `lacking` may not use TEST_EXTRA_KEY. */
export async function openFleet(
  world: World,
  {
    count,
    group,
    lacking = [],
    api_urls = [world.api.url],
  }: { count: number; group: string; lacking?: number[]; api_urls?: string[] },
): Promise<Fleet> {
  process.env[EXTRA_VARIABLE] = 'extra-secret';
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-fleet-'));
  const origin = new URL(world.models_url).origin;
  const configured = (more: object = {}, target: object = {}) => ({
    providers: {
      targets: [
        {
          id: 'sandbox',
          provider: 'openai',
          shape: 'openai',
          api_key_env: 'TEST_MODELS_KEY',
          base_url: `${world.models_url}/v1`,
          models: ['gpt-4o-mini'],
          ...target,
        },
      ],
    },
    cost_tickets: { hold_ms: 0 },
    circuit_breaker: { enabled: false },
    ...more,
  });
  const gateways: Fleet['gateways'] = [];
  for (let at = 0; at < count; at += 1) {
    const opened = await world.openGateway({ settings: configured(), api_urls });
    const file = path.join(folder, `${at}.yaml`);
    writeFileSync(file, JSON.stringify(configured()));
    const variables = lacking.includes(at) ? [] : [{ name: EXTRA_VARIABLE, origin }];
    // Any server of this machine, as upstreams of tests are.
    const reach = { origins: [origin, ...upstreams], variables };
    const configuration = openConfiguration(opened.gateway, { file, group, reach, poll_ms: 200 });
    gateways.push(Object.assign(opened, { configuration }));
  }
  const close = async () => {
    await Promise.all(gateways.map(({ configuration }) => configuration.close()));
    rmSync(folder, { recursive: true });
  };
  return { gateways, configured, close };
}

const upstreams = new Set<string>();

/** An upstream that answers 500 to one call in so many, and else as the sandbox's models do. */
export async function openFlaky(models_url: string, one_in: number) {
  let calls = 0;
  let failed = 0;
  const server = createServer(async (incoming, outgoing) => {
    calls += 1;
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    if (calls % one_in === 0) {
      failed += 1;
      outgoing.writeHead(500, { 'content-type': 'application/json' });
      outgoing.end('{"error":{"message":"Nothing works.","type":"server_error","code":null}}');
      return;
    }
    const answer = await request(`${models_url}${incoming.url}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: 'Bearer upstream-secret' },
      body: Buffer.concat(chunks),
    });
    outgoing.writeHead(answer.statusCode, { 'content-type': 'application/json' });
    outgoing.end(Buffer.from(await answer.body.arrayBuffer()));
  });
  const url = `http://127.0.0.1:${await listen(server, 0)}`;
  upstreams.add(url);
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url, close, failed: () => failed };
}

/** Calls all gateways in turn, without a pause but one for each call, until it is stopped. */
export function openLoad(world: World, urls: () => string[], callers = 6) {
  const statuses = new Map<number, number>();
  let is_over = false;
  let turn = 0;
  const run = async () => {
    while (!is_over) {
      const all = urls();
      turn += 1;
      const url = all[turn % all.length] as string;
      const { status } = await post(`${url}/v1/chat/completions`, world.key, chat('Hello'));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      await sleep(5);
    }
  };
  const running = Promise.all(Array.from({ length: callers }, run));
  return {
    /** How often each status was answered since the last look. */
    take(): Record<string, number> {
      const seen = Object.fromEntries(statuses);
      statuses.clear();
      return seen;
    },
    /** Waits until so many calls have ended since the last look. */
    reaches(calls: number): Promise<void> {
      const ended = () => [...statuses.values()].reduce((sum, count) => sum + count, 0);
      return until(() => ended() >= calls, 300_000);
    },
    async stop(): Promise<void> {
      is_over = true;
      await running;
    },
  };
}
