import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createApiClient } from '../../../console/server/api-client';
import { createConsole } from '../../../console/server/app';
import { createGatewayClient } from '../../../console/server/gateway-client';
import { listen } from '../../../runtime/listen';
import { createLog } from '../../../runtime/log';
import { createNetworks } from '../../../runtime/networks';

export const cookie_key = randomBytes(32).toString('base64');

export interface TestConsole {
  url: string;
  /** A request as the console's own page makes it, unless headers say else. */
  ask: (method: string, path: string, more?: Asked) => Promise<Response>;
  close: () => Promise<void>;
}

interface Asked {
  body?: unknown;
  cookie?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

interface Place {
  cookie_keys?: string[];
  /** It believes whom its visitors say that they are: sign-ins are counted by address. */
  is_behind_proxy?: boolean;
  /** Behind the chat; none if absent. */
  gateway_url?: string;
}

/** The console's server before an API, with a page of one line. */
export async function startConsole(
  api_url: string,
  { cookie_keys = [cookie_key], is_behind_proxy = false, gateway_url }: Place = {},
): Promise<TestConsole> {
  const folder = mkdtempSync(path.join(tmpdir(), 'svc-console-'));
  mkdirSync(path.join(folder, 'assets'));
  writeFileSync(path.join(folder, 'assets/main-abc123.js'), 'export {};\n');
  const built = {
    script: 'main-abc123.js',
    styles: [],
    origins: 'origins-1.js',
    api_url: 'https://api.example',
    gateway_url: 'https://gateway.example',
  };
  writeFileSync(path.join(folder, 'built.json'), JSON.stringify(built));
  const api = createApiClient(api_url);
  const origin = 'https://console.example';
  const trusted = createNetworks(is_behind_proxy ? ['127.0.0.1'] : []);
  const gateway = gateway_url === undefined ? undefined : createGatewayClient(gateway_url);
  const parts = { api, gateway, cookie_keys, origin, trusted, folder, isDraining: () => false };
  const server = createServer(createConsole(parts, createLog('test', 'silent')).callback());
  const port = await listen(server, 0, { host: '127.0.0.1' });
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    ask: (method, route, { body, cookie, headers = {}, signal } = {}) =>
      fetch(`${url}${route}`, {
        method,
        redirect: 'manual',
        headers: {
          'x-svc-console': '1',
          'sec-fetch-site': 'same-origin',
          'x-forwarded-for': `10.${[...randomBytes(3)].join('.')}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(cookie ? { cookie } : {}),
          ...headers,
        },
        body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
        signal: signal ?? null,
      }),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await Promise.all([api.destroy(), gateway?.destroy()]);
      rmSync(folder, { recursive: true });
    },
  };
}

/** The cookie that an answer sets, as a browser sends it back; empty for one that is taken out. */
export function cookieOf(answer: Response): string {
  const [set = ''] = answer.headers.getSetCookie();
  const [pair = ''] = set.split(';');
  return pair.endsWith('=') ? '' : pair;
}

/** The JSON of an answer. */
// biome-ignore lint/suspicious/noExplicitAny: answers are JSON of many shapes; the expectations are their types.
export async function jsonOf(answer: Response): Promise<any> {
  return answer.json();
}

interface Heard {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  body: string;
}

const provider = {
  id: 'iss_1',
  name: 'Example',
  issuer: 'https://id.example',
  client_id: 'console',
  authorization_url: 'https://id.example/authorize',
};

/** What stands in an API's place and keeps what it hears; it signs anybody in. */
export async function startListener(version = '1.5.0') {
  const heard: Heard[] = [];
  const said = {
    session_key: 'svc_ak_secret',
    user_id: 'user_1',
    org_id: 'org_1',
    permissions: [] as string[],
    member_keys: true,
    sessions: [] as { id: string; expires_at: string }[],
    my_keys: [] as { name: string; expires_at: string | null }[],
  };
  const server = createServer(async (req, res) => {
    const parts: Buffer[] = [];
    for await (const part of req) parts.push(part as Buffer);
    const { method = '', url = '', headers } = req;
    heard.push({ method, url, headers, body: Buffer.concat(parts).toString() });
    const session = {
      key: said.session_key,
      user_id: said.user_id,
      org_id: said.org_id,
      expires_at: new Date(Date.now() + 600_000).toISOString(),
    };
    // A stream of events that goes on for as long as it is read.
    if (url === '/v1/events/stream') {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write(': here\n\n');
      return;
    }
    res.setHeader('content-type', 'application/json');
    res.setHeader('set-cookie', 'of-the-api=1');
    res.setHeader('idempotent-replayed', 'true');
    res.setHeader('x-svc-truncated', 'true');
    if (method === 'POST' && url === '/v1/sessions') res.statusCode = 201;
    // A file that is in a bucket.
    if (/files(\/|%2F)302$/.test(url)) {
      res.statusCode = 302;
      res.setHeader('location', 'https://bucket.example/file');
    }
    // A file that is deleted.
    if (/files\/410$/.test(url)) {
      res.statusCode = 410;
      const error = { code: 'export_expired', message: 'The files of <this> export are deleted.' };
      res.end(JSON.stringify({ type: 'error', error, request_id: 'req_of_the_api' }));
      return;
    }
    const answers: Record<string, object> = {
      '/health': { status: 'ok', version },
      '/v1/me': { org_id: 'org_1', permissions: said.permissions },
      '/v1/organizations/org_1/member-keys': { enabled: said.member_keys },
    };
    const lists: Record<string, object> = {
      '/v1/issuers': { issuers: [provider] },
      '/v1/sessions': { sessions: said.sessions },
      '/v1/me/keys': { tokens: said.my_keys },
    };
    const [of = ''] = url.split('?');
    const found = method === 'GET' ? (answers[url] ?? lists[of]) : undefined;
    res.end(JSON.stringify(found ?? session));
  });
  const port = await listen(server, 0, { host: '127.0.0.1' });
  return Object.assign(said, {
    url: `http://127.0.0.1:${port}`,
    heard,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  });
}
