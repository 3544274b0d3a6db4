import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { stringify } from 'yaml';
import { gateway_audience } from '../identity/people';
import { message_models, models } from '../models/chat';
import { localUrl, mcpUrl, type Ports, type StartOptions } from '../processes/addresses';
import { replaceFile } from '../processes/data-directory';
import type { Demo } from './facts';
import type { Seeded } from './seed';

const KEY_VARIABLE = 'SANDBOX_MODELS_KEY';
const ENDPOINT_VARIABLE = 'OTEL_EXPORTER_OTLP_ENDPOINT';

function demoFile(options: StartOptions): string {
  return path.resolve(options.DATA_DIR, 'demo.json');
}

/** The folder of the logs of all processes. */
export function logFolder(options: StartOptions): string {
  return path.resolve(options.DATA_DIR, 'logs');
}

/** Everything printed, for scripts. Written last: if the file is there, the product is ready. */
export function writeDemo(options: StartOptions, demo: Demo): void {
  replaceFile(demoFile(options), `${JSON.stringify(demo, null, 2)}\n`);
}

export function removeDemo(options: StartOptions): void {
  rmSync(demoFile(options), { force: true });
}

/**
 * The gateway's configuration: the given file, or one that knows the sandbox's models, written at
 * each start.
 */
export function gatewayConfig(options: StartOptions, ports: Ports, seeded: Seeded): string {
  if (options.GATEWAY_CONFIG) return path.resolve(options.GATEWAY_CONFIG);
  const url = localUrl(ports.models);
  const targets = [
    {
      id: 'sandbox',
      provider: seeded.provider,
      shape: 'openai',
      base_url: `${url}/v1`,
      api_key_env: KEY_VARIABLE,
      models: [...models],
    },
    {
      id: 'sandbox-messages',
      provider: 'anthropic',
      shape: 'anthropic',
      base_url: url,
      api_key_env: KEY_VARIABLE,
      models: [...message_models],
    },
  ];
  // What npm run verify sends, to see that a block is one and is told of.
  const blocked = {
    pack: 'demo',
    policies: { chain: ['dlp-filter'] },
    policy: { 'dlp-filter': { stages: ['input'], blocked_terms: ['svc verify: block this'] } },
  };
  const mcp = { servers: [{ name: 'sandbox', url: mcpUrl(ports) }] };
  // Keys as before, and beside them the tokens of the sandbox's identity provider.
  const issuer = localUrl(ports.identity);
  const identity = {
    modes: ['gateway_key', 'signed_assertion'],
    org_id: seeded.organization_id,
    issuer,
    audience: gateway_audience,
    jwks_url: `${issuer}/jwks`,
    subject: 'bound',
  };
  // Stopping has little time: streams under way are cut and settled while the control plane still
  // runs.
  const timeouts = { drain_ms: 1_000 };
  const observability = {
    otlp: { enabled: true, endpoint_env: ENDPOINT_VARIABLE, export_rate_limit_metrics: true },
  };
  const telemetry = options[ENDPOINT_VARIABLE] === undefined ? {} : { observability };
  const note =
    'Written at each npm start. To use your own, copy it and name the copy in GATEWAY_CONFIG; ' +
    'PORTS=free gives the sandbox other ports than it names.';
  const file = path.resolve(options.DATA_DIR, 'gateway.yaml');
  writeFileSync(
    file,
    `# ${note}\n${stringify({ providers: { targets }, identity, mcp, timeouts, ...blocked, ...telemetry })}`,
  );
  return file;
}

/**
 * Sets the variable that the written configuration names, for us and all that we start; the sandbox
 * takes any key.
 */
export function setModelsKey(): void {
  process.env[KEY_VARIABLE] ||= 'sandbox';
}
