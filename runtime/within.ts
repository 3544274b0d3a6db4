/**
 * Waits for a promise, `ms` at most; then it throws. An answer that has arrived while this process
 * was busy still counts, as the time is over only after the next turn of the event loop.
 */
export function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => setImmediate(() => reject(new Error(`It did not answer within ${ms} ms.`))),
      ms,
    );
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
