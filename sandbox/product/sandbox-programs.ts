import path from 'node:path';
import type { Demo } from '../demo/facts';
import type { Seeded } from '../demo/seed';
import { client_id, people, redirect_uris } from '../identity/people';
import { localUrl, mcpUrl, type Ports, type StartOptions } from '../processes/addresses';
import { privateFolder } from '../processes/data-directory';
import type { Stack } from '../processes/stack';
import type { Kept } from '../processes/supervisor';
import { serverProgram } from './node-programs';
import { paymentPlaces } from './payment-programs';

interface SandboxContext {
  options: StartOptions;
  ports: Ports;
  stack: Stack;
}

/** The outside world, and where a buyer comes back to. */
export function sandboxPlaces(
  ports: Ports,
): Pick<Demo, 'sandbox' | 'identity' | 'return_url' | 'cancel_url'> {
  const { urls, shop_url } = paymentPlaces(ports);
  const sandbox = {
    models_url: localUrl(ports.models),
    mcp_url: mcpUrl(ports),
    payment_provider_a_url: urls.payment_provider_a,
    payment_provider_b_url: urls.payment_provider_b,
    shop_url,
    identity_url: localUrl(ports.identity),
    notices_url: localUrl(ports.notices),
  };
  const identity = {
    issuer: sandbox.identity_url,
    client_id,
    redirect_uris,
    people: people.map(({ login, name, email, what }) => ({ login, name, email, what })),
  };
  return {
    sandbox,
    identity,
    return_url: `${shop_url}/return`,
    cancel_url: `${shop_url}/canceled`,
  };
}

/** Where notices may go here: to the sandbox's receivers. */
export function noticeEnv({ apis, console: console_port, smtp }: Ports): Record<string, string> {
  return {
    NOTICE_NETWORKS: '127.0.0.0/8',
    NOTICE_CHAT_HOSTS: '127.0.0.1',
    NOTICE_MAIL_FROM: 'notices@svc.example',
    NOTICE_SMTP_URL: `smtp://127.0.0.1:${smtp}`,
    API_PUBLIC_URL: localUrl(apis[0] as number),
    CONSOLE_ORIGIN: localUrl(console_port),
  };
}

/** Starts the models, the tools and the identity provider; payments come with their shop. */
export async function startSandbox(
  context: SandboxContext,
  starting_database: Promise<{ seeded: Seeded }>,
): Promise<void> {
  const identity = starting_database.then(({ seeded }) => startIdentity(context, seeded.team_id));
  await Promise.all([startModels(context), startTools(context), identity]);
}

function startModels({ ports, stack }: SandboxContext): Promise<Kept> {
  const program = serverProgram({
    name: 'sandbox-models',
    script: 'sandbox/models/server.ts',
    env: { SANDBOX_MODELS_PORT: String(ports.models) },
    ready_url: `${localUrl(ports.models)}/sandbox/requests`,
  });
  return stack.run('services', program);
}

function startTools({ ports, stack }: SandboxContext): Promise<Kept> {
  const program = serverProgram({
    name: 'sandbox-mcp',
    script: 'sandbox/tools/mcp-server.ts',
    env: {
      SANDBOX_MCP_PORT: String(ports.mcp),
      SANDBOX_NOTICES_PORT: String(ports.notices),
      SANDBOX_SMTP_PORT: String(ports.smtp),
    },
    ready_url: `${localUrl(ports.mcp)}/sandbox/health`,
  });
  return stack.run('services', program);
}

/** Its keys are kept in the data directory, so that tokens outlive a start. */
function startIdentity({ options, ports, stack }: SandboxContext, team_id: string): Promise<Kept> {
  const folder = privateFolder(path.resolve(options.DATA_DIR, 'identity'));
  const program = serverProgram({
    name: 'sandbox-identity',
    script: 'sandbox/identity/main.ts',
    env: {
      SANDBOX_IDENTITY_PORT: String(ports.identity),
      SANDBOX_IDENTITY_KEYS: path.join(folder, 'keys.json'),
      SANDBOX_IDENTITY_TEAM_ID: team_id,
    },
    ready_url: `${localUrl(ports.identity)}/.well-known/openid-configuration`,
  });
  return stack.run('services', program);
}
