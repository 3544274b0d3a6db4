import { readFileSync } from 'node:fs';
import {
  ConfidentialClientApplication,
  type INetworkModule,
  ManagedIdentityApplication,
} from '@azure/msal-node';
import { namedVariable } from '../../../runtime/config';
import { fetchThrough } from '../../../runtime/outgoing';
import type { EntraAuth } from '../../config/auth';
import { isOfMachine, refuseStranger } from './machine';
import type { Lasting } from './renewal';

// Tokens of Microsoft Entra: of an application with its secret, of a workload, of the machine.

const PUBLIC_HOST = 'https://login.microsoftonline.com';
const hosts = new Set([
  PUBLIC_HOST,
  'https://login.microsoftonline.us',
  'https://login.partner.microsoftonline.cn',
]);

/** Asks for a token. Each time anew: what the package keeps itself may be what was refused. */
export async function entraToken(
  auth: EntraAuth,
  scope: string,
  network: INetworkModule = ownNetwork,
): Promise<Lasting<string>> {
  const given =
    auth === 'managed_identity'
      ? await machineToken(scope)
      : await applicationOf(auth, network).acquireTokenByClientCredential({ scopes: [scope] });
  if (!given?.accessToken) throw new Error('Entra gave no token.');
  return { value: given.accessToken, expires_at: given.expiresOn?.getTime() };
}

// Of App Service and Service Fabric, Arc, Cloud Shell and Machine Learning, and of pods.
const machine_variables = [
  'IDENTITY_ENDPOINT',
  'IMDS_ENDPOINT',
  'MSI_ENDPOINT',
  'AZURE_POD_IDENTITY_AUTHORITY_HOST',
];

function machineToken(scope: string) {
  for (const named_by of machine_variables) {
    const url = namedVariable(named_by);
    if (url) refuseStranger({ url, named_by }, isOfMachine);
  }
  const userAssignedClientId = namedVariable('AZURE_CLIENT_ID');
  const application = new ManagedIdentityApplication(
    userAssignedClientId ? { managedIdentityIdParams: { userAssignedClientId } } : undefined,
  );
  const resource = scope.replace(/\/\.default$/, '');
  // The package's cache outlives the application, and would answer with what was refused.
  return application.acquireToken({ resource, forceRefresh: true });
}

function applicationOf(
  auth: Exclude<EntraAuth, 'managed_identity'>,
  networkClient: INetworkModule,
): ConfidentialClientApplication {
  const host = namedVariable('AZURE_AUTHORITY_HOST')?.replace(/\/+$/, '') || PUBLIC_HOST;
  if (!hosts.has(host)) throw new Error(`${host} is no server of Entra's tokens.`);
  const { tenant, ...application } = auth === 'workload_identity' ? workload() : secretOf(auth);
  return new ConfidentialClientApplication({
    auth: { authority: `${host}/${tenant}`, ...application },
    system: { networkClient },
  });
}

function secretOf(auth: Exclude<EntraAuth, string>) {
  const { tenant_id: tenant, client_id: clientId, client_secret_env } = auth;
  return { tenant, clientId, clientSecret: required(client_secret_env) };
}

/** A token of the cluster stands for the application; its file is read each time. */
function workload() {
  const file = required('AZURE_FEDERATED_TOKEN_FILE');
  return {
    tenant: required('AZURE_TENANT_ID'),
    clientId: required('AZURE_CLIENT_ID'),
    clientAssertion: readFileSync(file, 'utf8').trim(),
  };
}

function required(variable: string): string {
  const value = namedVariable(variable);
  if (!value) throw new Error(`The environment variable ${variable} is not set.`);
  return value;
}

type NetworkOptions = { headers?: Record<string, string>; body?: string };

/** The package's requests over connections of this process, never to a closed address. */
const ownNetwork: INetworkModule = {
  sendGetRequestAsync: (url, options) => ask('GET', url, options),
  sendPostRequestAsync: (url, options) => ask('POST', url, options),
};

async function ask<T>(method: string, url: string, { headers, body }: NetworkOptions = {}) {
  const answer = await fetchThrough(url, {
    method,
    ...(headers === undefined ? {} : { headers }),
    ...(body === undefined ? {} : { body }),
    redirect: 'error',
  });
  return {
    headers: Object.fromEntries(answer.headers),
    body: (await answer.json()) as T,
    status: answer.status,
  };
}
