import type { Socket } from 'node:net';

/**
 * Changes with each byte that a client with unread ones reads; undefined if it has read all, or if
 * it has no socket that tells.
 */
export function readTo(socket: Partial<Socket>): string | undefined {
  // What the system has not taken yet of the write under way; Node's own time-outs look there.
  const { _handle } = socket as { _handle?: { writeQueueSize?: number } | null };
  const queued = _handle?.writeQueueSize ?? 0;
  const { bytesWritten = 0, writableLength = 0 } = socket;
  return queued > 0 ? `${queued} ${bytesWritten - writableLength}` : undefined;
}
