import type { ConnectionOptions } from '@temporalio/client';
import { ServiceError } from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import { loadClientConnectConfig } from '@temporalio/envconfig';

/** How to reach Temporal: what a client and a worker's connection both take. */
export interface TemporalAddress {
  /** `host:port` */
  address: string;
  tls?: NonNullable<ConnectionOptions['tls']>;
  apiKey?: string;
  metadata?: Record<string, string>;
}

/**
 * The address, with TLS, a client certificate and an API key if the SDK's own variables name them:
 * `TEMPORAL_TLS`, `TEMPORAL_TLS_CLIENT_CERT_PATH`, `TEMPORAL_API_KEY` and the rest. A file counts
 * only if `TEMPORAL_CONFIG_FILE` names it: one that lies in somebody's home must not move a process
 * elsewhere. Throws if a named file cannot be read.
 */
export function temporalAddress(env: Record<string, string>): TemporalAddress {
  const { connectionOptions } = loadClientConnectConfig({
    overrideEnvVars: env,
    disableFile: env.TEMPORAL_CONFIG_FILE === undefined,
  });
  const { address = '', tls, apiKey, metadata } = connectionOptions;
  return {
    address,
    ...(tls == null ? {} : { tls }),
    ...(typeof apiKey === 'string' ? { apiKey } : {}),
    ...(metadata == null ? {} : { metadata: metadata as Record<string, string> }),
  };
}

/** The gRPC code of an error of the SDK; undefined if it has none. */
export function grpcCode(error: unknown): number | undefined {
  const { code, cause } = error as { code?: number; cause?: { code?: number } };
  return cause?.code ?? code;
}

// gRPC: DEADLINE_EXCEEDED and UNAVAILABLE, which a server that is still starting answers too;
// PERMISSION_DENIED and UNAUTHENTICATED are about this process, not about what it sends.
const away_codes = [4, 14, 7, 16];

/** True if Temporal, or its namespace, cannot be used now, whatever the message is. */
export function isAway(error: unknown): boolean {
  if (error instanceof NamespaceNotFoundError) return true;
  const is_refused_attribute =
    error instanceof ServiceError && /search attribute/i.test(String(error.cause));
  return is_refused_attribute || away_codes.includes(grpcCode(error) ?? -1);
}
