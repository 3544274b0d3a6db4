import type { loadConfig } from '../../runtime/config';
import { freePorts, isFree } from './ports';

export type StartOptions = ReturnType<typeof loadConfig<'product'>>;

/** The ports of all parts. Further instances of api and gateway take free ones. */
export interface Ports {
  postgres: number;
  temporal: number;
  temporal_ui: number;
  models: number;
  payment_a: number;
  payment_b: number;
  shop: number;
  mcp: number;
  identity: number;
  notices: number;
  smtp: number;
  console: number;
  apis: number[];
  gateways: number[];
}

const defaults = {
  POSTGRES_PORT: 15432,
  TEMPORAL_PORT: 7233,
  TEMPORAL_UI_PORT: 8233,
  SANDBOX_MODELS_PORT: 8090,
  SANDBOX_PAYMENT_A_PORT: 8091,
  SANDBOX_PAYMENT_B_PORT: 8092,
  SANDBOX_SHOP_PORT: 8093,
  SANDBOX_MCP_PORT: 8094,
  SANDBOX_IDENTITY_PORT: 8095,
  SANDBOX_NOTICES_PORT: 8096,
  SANDBOX_SMTP_PORT: 8097,
  API_PORT: 8080,
  GATEWAY_PORT: 8081,
  CONSOLE_PORT: 3000,
} as const;

type Variable = keyof typeof defaults;

/**
 * Chooses the ports: each is the one that a variable names, else a default, or a free one under
 * PORTS=free. Fails if one is taken.
 */
export async function choosePorts(options: StartOptions): Promise<Ports> {
  const spare = await freePorts(options.APIS + options.GATEWAYS + Object.keys(defaults).length);
  const take = () => spare.pop() as number;
  const port = (variable: Variable) =>
    options[variable] ?? (options.PORTS ? take() : defaults[variable]);
  const further = (count: number) => Array.from({ length: count - 1 }, take);
  const needed = new Map<Variable, number>();
  for (const variable of Object.keys(defaults) as Variable[]) {
    if (!isReplaced(variable, options)) needed.set(variable, port(variable));
  }
  await refuseTaken(needed);
  const of = (variable: Variable) => needed.get(variable) ?? 0;
  return {
    postgres: of('POSTGRES_PORT'),
    temporal: of('TEMPORAL_PORT'),
    temporal_ui: of('TEMPORAL_UI_PORT'),
    models: of('SANDBOX_MODELS_PORT'),
    payment_a: of('SANDBOX_PAYMENT_A_PORT'),
    payment_b: of('SANDBOX_PAYMENT_B_PORT'),
    shop: of('SANDBOX_SHOP_PORT'),
    mcp: of('SANDBOX_MCP_PORT'),
    identity: of('SANDBOX_IDENTITY_PORT'),
    notices: of('SANDBOX_NOTICES_PORT'),
    smtp: of('SANDBOX_SMTP_PORT'),
    console: of('CONSOLE_PORT'),
    apis: [of('API_PORT'), ...further(options.APIS)],
    gateways: [of('GATEWAY_PORT'), ...further(options.GATEWAYS)],
  };
}

/** True if somebody else's server replaces the part that would use the port. */
function isReplaced(variable: Variable, options: StartOptions): boolean {
  if (variable === 'POSTGRES_PORT') return options.DATABASE_URL !== undefined;
  return variable.startsWith('TEMPORAL') && options.TEMPORAL_ADDRESS !== undefined;
}

async function refuseTaken(needed: Map<Variable, number>): Promise<void> {
  const problems: string[] = [];
  const owners = new Map<number, Variable>();
  for (const [variable, port] of needed) {
    const owner = owners.get(port);
    if (owner) problems.push(`${owner} and ${variable} are both ${port}.`);
    else if (!(await isFree(port))) problems.push(`Port ${port} (${variable}) is in use.`);
    owners.set(port, variable);
  }
  if (problems.length === 0) return;
  throw new Error(
    `${problems.join('\n')}\nSet the variable to another port, or let npm start pick free ` +
      'ones for all: PORTS=free npm start',
  );
}

export function localUrl(port: number): string {
  return `http://127.0.0.1:${port}`;
}

export function mcpUrl({ mcp }: Ports): string {
  return `${localUrl(mcp)}/mcp`;
}
