import type { Server } from 'node:http';
import { ConfigError } from './config';

const refusals: Record<string, (at: { host: string; port: number; name: string }) => string> = {
  EADDRINUSE: ({ port, name }) =>
    `Port ${port} is in use by another process. Set ${name}_PORT to another one.`,
  EACCES: ({ port, name }) =>
    `Port ${port} may not be opened by this user. Set ${name}_PORT to another one.`,
  EADDRNOTAVAIL: ({ host, name }) => `${host} is no address of this machine. Set ${name}_HOST.`,
  ENOTFOUND: ({ host, name }) => `${host} is no address of this machine. Set ${name}_HOST.`,
};

/**
 * Listens, on all interfaces unless a host is named; resolves with the port in use (0 asks for a
 * free one). A refusal names the variable to change, which begins with `name`.
 */
export function listen(
  server: Server,
  port: number,
  { host, name = '' }: { host?: string | undefined; name?: string } = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const words = refusals[error.code ?? '']?.({ host: host ?? '', port, name });
      reject(words === undefined ? error : new ConfigError(words));
    });
    server.listen({ port, ...(host && { host }) }, () => {
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}
