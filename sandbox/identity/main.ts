import { existsSync, readFileSync } from 'node:fs';
import { exportJWK, generateKeyPair } from 'jose';
import type { JWK } from 'oidc-provider';
import { listen } from '../../runtime/listen';
import { replaceFile } from '../processes/data-directory';
import { createIdentityServer } from './provider';

/** The keys of an earlier start, so that its tokens stay good; new ones if there are none. */
async function keysOf(file: string | undefined): Promise<JWK[]> {
  if (file !== undefined && existsSync(file))
    return JSON.parse(readFileSync(file, 'utf8')) as JWK[];
  const { privateKey } = await generateKeyPair('RS256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), alg: 'RS256', use: 'sig' } as JWK;
  const keys = [{ ...key, kid: `sandbox-${Date.now().toString(36)}` }];
  if (file !== undefined) replaceFile(file, `${JSON.stringify(keys)}\n`);
  return keys;
}

/** Run as a program. */
export async function main(): Promise<void> {
  const { SANDBOX_IDENTITY_PORT, SANDBOX_IDENTITY_KEYS, SANDBOX_IDENTITY_TEAM_ID } = process.env;
  const port = Number(SANDBOX_IDENTITY_PORT ?? 8095);
  const issuer = `http://127.0.0.1:${port}`;
  const keys = await keysOf(SANDBOX_IDENTITY_KEYS);
  const server = await createIdentityServer({ issuer, keys, team_id: SANDBOX_IDENTITY_TEAM_ID });
  await listen(server, port, { host: '127.0.0.1', name: 'SANDBOX_IDENTITY' });
  process.stdout.write(`sandbox identity provider on ${issuer}\n`);
}
