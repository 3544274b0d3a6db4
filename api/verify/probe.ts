import { randomUUID } from 'node:crypto';
import { ask, Fault, read } from './client';

// A key and a hold of a check are named so, and taken back.
export const NAME = 'verify';
const KEY_MS = 5 * 60_000;

/** Whose the gateway key is, as the control plane tells gateways. */
export interface Owner {
  key_id: string;
  org_id: string;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
}

export type Probe = ReturnType<typeof openProbe>;

/**
 * A key with which checks speak as a gateway does: made when it is first needed, gone with `close`,
 * and after five minutes by itself.
 */
export function openProbe(api_url: string, platform_key: string, gateway_key: string) {
  const name = `${NAME} ${randomUUID()}`;
  const makeKey = async (): Promise<string> => {
    const body = {
      name,
      token_type: 'access',
      scopes: ['control_plane'],
      expires_at: new Date(Date.now() + KEY_MS).toISOString(),
    };
    return (await read('POST', `${api_url}/v1/tokens`, { key: platform_key, body })).key;
  };
  let key: Promise<string> | undefined;
  const controlPlaneKey = () => {
    key ??= makeKey();
    return key;
  };
  const askOwner = async (): Promise<Owner> =>
    read('POST', `${api_url}/v1/gateway/keys/verify`, {
      key: await controlPlaneKey(),
      body: { key: gateway_key },
    });
  let owner: Promise<Owner> | undefined;
  return {
    controlPlaneKey,
    owner: () => {
      owner ??= askOwner();
      return owner;
    },
    async close(): Promise<void> {
      if (key === undefined) return;
      const is_made = await key.then(
        () => true,
        () => false,
      );
      // What had no answer may have been made.
      const url = `${api_url}/v1/tokens/${encodeURIComponent(name)}`;
      const { status, body } = await ask('DELETE', url, { key: platform_key });
      if (status >= 300 && (is_made || status !== 404))
        throw new Fault(`DELETE ${url} answers ${status}: ${body?.error?.message ?? 'no words'}`);
    },
  };
}
