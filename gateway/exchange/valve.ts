import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { Begun } from '../call/call';
import type { ClientResponse } from '../call/client-side';
import { readTo } from '../wire/unread';

type Controller = Dispatcher.DispatchController;

// So often within the idle time-out it is looked whether a client has read on.
const LOOKS = 4;

/**
 * Writes to the client no faster than it reads; one that reads nothing during the idle time-out is
 * left.
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
    this.stalled = this.watch();
    const goOn = (): void => {
      clearInterval(this.stalled);
      this.stalled = undefined;
      this.res.off('drain', goOn);
      this.res.off('close', goOn);
      this.decoder?.resume();
      this.controller.resume();
    };
    this.res.on('drain', goOn);
    this.res.on('close', goOn);
  }

  /**
   * Leaves a client that reads nothing. Of an answer that was ended nothing tells that its client
   * reads on, but its socket.
   */
  private watch(): NodeJS.Timeout {
    const { req, res } = this.call.ctx;
    const look = () => readTo(req.socket);
    let read_to = look();
    let still = 0;
    const { idle_ms } = this.call.snapshot.settings.timeouts;
    return setInterval(() => {
      const before = read_to;
      read_to = look();
      still = read_to === before ? still + 1 : 0;
      if (still >= LOOKS) res.destroy();
    }, idle_ms / LOOKS);
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
