import { z } from 'zod';
import { routing_headers, serverUrl } from './addresses';
import { orgShare } from './shares';

const credentials = /^(authorization|cookie|x-api-key|api-key)$/i;
const server = z.strictObject({
  /** Its path is `/mcp/<name>`, and its tools are priced as `<name>/<tool>`. */
  name: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/),
  url: serverUrl,
  /** The server's own credential, sent as bearer. A client's key never goes upstream. */
  api_key_env: z.string().min(1).optional(),
  /** Sent with every request; nothing secret. */
  headers: z
    .record(z.string().regex(/^[A-Za-z0-9-]+$/), z.string())
    .refine((headers) => !Object.keys(headers).some((name) => credentials.test(name)), {
      error: 'a credential is named in api_key_env',
    })
    .refine((headers) => !Object.keys(headers).some((name) => routing_headers.test(name)), {
      error:
        'names a header that says where a request goes or how its body is read; the url says that',
    })
    .default({}),
});

/** The section `mcp`. */
export const mcpSettings = z.strictObject({
  /** The first one is also at `/mcp`. */
  servers: z
    .array(server)
    .refine((rows) => new Set(rows.map(({ name }) => name)).size === rows.length, {
      error: 'a name is used twice',
    })
    .default([]),
  /** Browsers name the page that calls; of no other page they are let in. */
  allowed_origins: z.array(z.string().min(1)).default([]),
  /** The names under which this gateway is reached, with their ports; empty is any. */
  allowed_hosts: z.array(z.string().min(1)).default([]),
  /** Between two comments in an idle stream, which keep connections open. */
  keep_alive_ms: z.int().min(1).max(3_600_000).default(15_000),
  /** How many streams of notices this gateway holds open, of them one organization, and one key. */
  listeners_max: z.int().min(0).max(100_000).default(2_000),
  listeners_per_org_max: orgShare,
  listeners_per_key_max: z.int().min(0).max(100_000).default(100),
  /**
   * How long the gateway waits for the answer to a client that has left, in protocol versions in
   * which leaving is no cancellation.
   */
  detached_ms: z.int().min(1).max(3_600_000).default(300_000),
});

type McpSettings = z.infer<typeof mcpSettings>;
export type McpServerSettings = McpSettings['servers'][number];
