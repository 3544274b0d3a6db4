import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stringify } from 'yaml';
import type { Ports, Settings } from './addresses';
import { replaceFile } from './data-directory';
import { message_models, models } from './model-answers';
import { paymentWalk } from './payment-walk';
import type { Seeded } from './seed';
import { ticketWalk } from './ticket-walk';

/** What a script needs to know of a running copy: the content of demo.json. */
export interface Demo extends Omit<Seeded, 'wallet_id' | 'models'> {
  /** A chat model that the gateway serves, then an embedding model where it serves one. */
  models: string[];
  api_url: string;
  gateway_url: string;
  api_urls: string[];
  gateway_urls: string[];
  pids: {
    apis: number[];
    gateways: number[];
    worker_lifecycle: number | null;
    /** Null where somebody else's server is used. */
    temporal: number | null;
    postgres: number | null;
  };
  temporal_address: string;
  temporal_ui_url: string | null;
  database_url: string;
  sandbox: {
    models_url: string;
    mcp_url: string;
    payment_provider_a_url: string;
    payment_provider_b_url: string;
    /** The page that tops up by a click, and where buyers come back to. */
    shop_url: string;
  };
  return_url: string;
  cancel_url: string;
}

const KEY_VARIABLE = 'SANDBOX_MODELS_KEY';
const ENDPOINT_VARIABLE = 'OTEL_EXPORTER_OTLP_ENDPOINT';

export function localUrl(port: number): string {
  return `http://127.0.0.1:${port}`;
}

export function mcpUrl({ mcp }: Ports): string {
  return `${localUrl(mcp)}/mcp`;
}

export function demoFile(settings: Settings): string {
  return path.resolve(settings.DATA_DIR, 'demo.json');
}

/** Where the logs of all processes are kept. */
export function logFolder(settings: Settings): string {
  return path.resolve(settings.DATA_DIR, 'logs');
}

/** Everything printed, for scripts. Written last, so that whoever finds it finds the product ready. */
export function writeDemo(settings: Settings, demo: Demo): void {
  replaceFile(demoFile(settings), `${JSON.stringify(demo, null, 2)}\n`);
}

export function removeDemo(settings: Settings): void {
  rmSync(demoFile(settings), { force: true });
}

/** The gateway's configuration: the given file, or one that knows the sandbox's models, written at each start. */
export function gatewayConfig(settings: Settings, ports: Ports, seeded: Seeded): string {
  if (settings.GATEWAY_CONFIG) return path.resolve(settings.GATEWAY_CONFIG);
  const url = localUrl(ports.models);
  const targets = [
    {
      ...{ id: 'sandbox', provider: seeded.provider, shape: 'openai', base_url: `${url}/v1` },
      ...{ api_key_env: KEY_VARIABLE, models: [...models] },
    },
    {
      ...{ id: 'sandbox-messages', provider: 'anthropic', shape: 'anthropic', base_url: url },
      ...{ api_key_env: KEY_VARIABLE, models: [...message_models] },
    },
  ];
  const mcp = { servers: [{ name: 'sandbox', url: mcpUrl(ports) }] };
  // Stopping has little time: streams under way are cut and settled while the control plane still runs.
  const timeouts = { drain_ms: 1_000 };
  const observability = {
    otlp: { enabled: true, endpoint_env: ENDPOINT_VARIABLE, export_rate_limit_metrics: true },
  };
  const telemetry = settings[ENDPOINT_VARIABLE] === undefined ? {} : { observability };
  const note =
    'Written at each npm start. To use your own, copy it and name the copy in GATEWAY_CONFIG; PORTS=free gives the sandbox other ports than it names.';
  const file = path.resolve(settings.DATA_DIR, 'gateway.yaml');
  writeFileSync(
    file,
    `# ${note}\n${stringify({ providers: { targets }, mcp, timeouts, ...telemetry })}`,
  );
  return file;
}

/** Sets the variable that the written configuration names, for us and all that we start; the sandbox takes any key. */
export function setModelsKey(): void {
  process.env[KEY_VARIABLE] ||= 'sandbox';
}

/** What is printed and not in demo.json. */
export interface Printed {
  wallet_id: string;
  /** The model that the calls name has a price. */
  is_priced: boolean;
  log_folder: string;
  /** Where the printed commands keep the answer of create-checkout. */
  checkout_file: string;
}

/** What a person reads when everything runs. */
export function welcome(demo: Demo, more: Printed): string {
  const { wallet_id, is_priced, log_folder, checkout_file } = more;
  const { keys, api_url, gateway_url } = demo;
  const json = "-H 'content-type: application/json'";
  const chat = (flags: string, more: string) =>
    `curl ${flags} ${gateway_url}/v1/chat/completions -H 'authorization: Bearer ${keys.gateway}' ${json} \\\n    -d '{"model": "${demo.models[0]}", ${more}"messages": [{"role": "user", "content": "Say hello."}]}'`;
  const ledger = `curl -sS '${api_url}/v1/wallets/${wallet_id}/transactions?per_page=5' -H 'authorization: Bearer ${keys.billing_admin}'`;
  const walk = ticketWalk(demo);
  const rows = (entries: [string, string | null][]) =>
    entries.map(([name, value]) => `  ${name.padEnd(15)} ${value ?? 'not ours'}`).join('\n');
  return `
${rows([
  ['API', `${demo.api_urls.join(' ')}  (its pages: ${api_url}/docs)`],
  ['Gateway', demo.gateway_urls.join(' ')],
  ['Temporal', `${demo.temporal_address}  (its page: ${demo.temporal_ui_url ?? 'not ours'})`],
  ['PostgreSQL', demo.database_url],
  ['Sandbox models', demo.sandbox.models_url],
  ['Sandbox tools', `${demo.sandbox.mcp_url}  (MCP; priced through ${gateway_url}/mcp)`],
  [
    'Sandbox payment',
    `${demo.sandbox.payment_provider_a_url} (provider A)  ${demo.sandbox.payment_provider_b_url} (provider B)`,
  ],
  ['Logs', `${log_folder}  (a line a request in gateway.log and api.log)`],
])}

Keys
${rows(Object.entries(keys))}

${is_priced ? 'A priced request' : `A request (${demo.provider} ${demo.models[0]} has no price yet: POST /v1/admin/model-pricing)`}:
  ${chat('-sS', '')}

The same as a stream:
  ${chat('-sSN', '"stream": true, ')}

The ledger that shows both, newest first (a stream settles just after its end: give it a second):
  ${ledger}

A request that no wallet covers waits for a person. Put the wallet's money aside:
  ${walk.drain}

This call hangs now, for five minutes at most:
  ${walk.ask}

Approve it in a second terminal, and watch the first one answer:
  ${walk.approve}

Give the wallet its money back (the next npm start does it too):
  ${walk.refill}

${topUp(demo, checkout_file)}

All of this is in demo.json of the data directory. Ctrl-C stops everything.
`;
}

/** The top-up, by a click and by commands. */
function topUp(demo: Demo, checkout_file: string): string {
  const walk = paymentWalk(demo, checkout_file);
  return `Top up by a click; a call that waits for money goes on by it, too:
  ${demo.sandbox.shop_url}/

The same by hand. Make a checkout, and open the approval_url that it answers in a browser:
  ${walk.create}

Once it is paid there the provider's webhook completes it; this asks at once, as often as you like:
  ${walk.confirm}

What became of it:
  ${walk.history}

Send it back to its buyer:
  ${walk.refund}

The next checkout at the other provider:
  ${walk.switch_provider}`;
}
