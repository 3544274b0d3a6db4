import { createServer } from 'node:net';

// Below the range from which the system takes ports for outgoing connections, so that a port that
// was found free stays so.
const FIRST = 20_000;
const LAST = 32_000;

/** So many different free TCP ports. */
export async function freePorts(count: number): Promise<number[]> {
  const found = new Set<number>();
  for (let tries = 0; found.size < count; tries += 1) {
    if (tries > 1_000) throw new Error(`No free TCP port between ${FIRST} and ${LAST} was found.`);
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (!found.has(port) && (await isFree(port))) found.add(port);
  }
  return [...found];
}

/** True if a server could listen on this port, on loopback as on all interfaces. */
export async function isFree(port: number): Promise<boolean> {
  return (await canListen(port, '127.0.0.1')) && (await canListen(port));
}

function canListen(port: number, host?: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, ...(host && { host }) }, () => server.close(() => resolve(true)));
  });
}
