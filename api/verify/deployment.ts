import { ask, Fault } from './client';
import type { Probe } from './probe';

export interface Place {
  url: string;
  kind: 'api' | 'gateway' | 'console';
  version: string;
}

export interface Deployment {
  apis: Place[];
  gateways: Place[];
  /** May be none. */
  consoles: Place[];
  platform_key: string;
  gateway_key: string;
  /** The key and owner by which checks write and take back. */
  probe: Probe;
  /** A text that the deployment's policy must block. */
  blocked_text: string;
  /** Only if this terminal may look into the database. */
  database_url: string | undefined;
}

/** What listens at an address. Throws a Fault if it is no API, gateway or console of ours. */
export async function placeAt(url: string): Promise<Place> {
  for (const [kind, at] of [
    ['gateway', '/svc/health'],
    ['api', '/health'],
    ['console', '/api/health'],
  ] as const) {
    const { status, body } = await ask('GET', `${url}${at}`);
    if (status === 200 && typeof body?.version === 'string')
      return { url, kind, version: body.version };
  }
  throw new Fault(`${url} is no API, gateway or console: none of their health routes is 200.`);
}
