import type { IncomingMessage, ServerResponse } from 'node:http';

/**
 * True once all answers before this one on its connection have been sent; false if the connection
 * closes before. A response that waits for its turn has no socket yet: Node tells it neither that
 * its client reads nor that it has gone, so nothing may be begun for it (RFC 9112, 9.3.2).
 */
export function turnOf(req: IncomingMessage, res: ServerResponse): Promise<boolean> | true {
  if (res.socket !== null) return true;
  const { socket } = req;
  return new Promise((resolve) => {
    const begin = (): void => {
      socket.off('close', leave);
      resolve(true);
    };
    const leave = (): void => {
      res.off('socket', begin);
      resolve(false);
    };
    res.once('socket', begin);
    if (socket.destroyed) leave();
    else socket.once('close', leave);
  });
}
