import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { Begun } from '../call/call';
import type { ClientResponse } from '../call/client-side';

type Controller = Dispatcher.DispatchController;

/**
 * Writes to the client no faster than it reads; one that does not read at all is left after the
 * idle time-out.
 */
export class Valve {
  private readonly call: Begun;
  private readonly res: ClientResponse;
  private readonly controller: Controller;
  private decoder: Duplex | undefined;
  private stalled: NodeJS.Timeout | undefined;

  constructor(call: Begun, controller: Controller) {
    this.call = call;
    this.res = call.ctx.res;
    this.controller = controller;
  }

  write(bytes: Buffer): void {
    if (bytes.length === 0 || this.call.client_is_gone) return;
    if (this.res.write(bytes) || this.stalled !== undefined) return;
    this.controller.pause();
    this.decoder?.pause();
    this.stalled = setTimeout(
      () => this.res.destroy(),
      this.call.snapshot.settings.timeouts.idle_ms,
    );
    const goOn = (): void => {
      clearTimeout(this.stalled);
      this.stalled = undefined;
      this.res.off('drain', goOn);
      this.res.off('close', goOn);
      this.decoder?.resume();
      this.controller.resume();
    };
    this.res.on('drain', goOn);
    this.res.on('close', goOn);
  }

  /** True while the client has more to read than it takes. */
  isStalled(): boolean {
    return this.stalled !== undefined;
  }

  end(): void {
    if (!this.call.client_is_gone) this.res.end();
  }

  /** Sends the head by itself if no frame follows in this turn. */
  flushSoon(): void {
    setImmediate(() => {
      if (!this.res.destroyed && !this.res.writableEnded) this.res.flushHeaders();
    });
  }

  decode(decoder: Duplex, pass: (chunk: Buffer) => void, onBroken: (error: Error) => void): void {
    this.decoder = decoder;
    decoder.on('data', pass);
    decoder.on('error', onBroken);
  }

  feed(chunk: Buffer): void {
    const { decoder } = this;
    if (decoder === undefined || decoder.destroyed || decoder.write(chunk)) return;
    this.controller.pause();
    decoder.once('drain', () => this.controller.resume());
  }

  async decoded(error: Error | undefined): Promise<void> {
    const { decoder } = this;
    if (decoder === undefined || decoder.destroyed || decoder.closed) return;
    const closed = new Promise<void>((resolve) => decoder.once('close', resolve));
    if (error === undefined) decoder.end();
    else decoder.destroy();
    decoder.resume();
    await closed;
  }
}
