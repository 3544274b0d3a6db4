import type { Dispatcher } from 'undici';
import { AppError } from '../../domain/errors';
import { createDeferred } from '../../runtime/deferred';
import type { Funded, Identified } from '../call/call';
import { Valve } from '../exchange/valve';
import { serverTrouble, upstreamError } from '../upstreams/errors';
import { limitHeaders } from '../upstreams/retry';
import { type Frame, newSseState, readFrames, unfinished } from '../wire/sse';
import { type Answered, nothingAnswered, outcomeOfTool, readAnswer } from './answers';
import { type AnswerGuard, createGuard } from './guard';
import { withHiddenTools } from './lists';
import { idKey, rpcErrors } from './messages';

type Controller = Dispatcher.DispatchController;
type Headers = Record<string, string | string[] | undefined>;

/** One HTTP request to an MCP server. */
export interface Sent {
  method: 'GET' | 'POST' | 'DELETE';
  headers: Record<string, string>;
  body: Buffer | null;
  /** The ids of its requests, as JSON. */
  ids: readonly string[];
  /** The tools that a list leaves out; undefined if none can come, or all are shown. */
  hides: ((tool: string) => boolean) | undefined;
  /** The tool calls among them, by the keys of their ids. */
  paid: ReadonlyMap<string, Funded>;
  /** A client that goes has not cancelled. */
  goes_on: boolean;
  sealSession(session: string): string;
}

// What is kept of a JSON answer to find out how it answers; a longer one is a result.
const JSON_MAX_BYTES = 16 * 1_048_576;
// All that comes back, besides the protocol's own.
const client_headers = ['content-type', 'cache-control', 'allow', 'retry-after'];

/**
 * Sends a request to an MCP server and its answer to the client, as it comes. undici calls the `on`
 * methods.
 */
export class McpExchange implements Dispatcher.DispatchHandler {
  private readonly over = createDeferred<void>();
  readonly done = this.over.promise;
  /** The first of the calls that travel in this request: they share one client. */
  private readonly call: Identified;
  private readonly sent: Sent;
  private readonly answered: Answered = nothingAnswered();
  private readonly sse = newSseState();
  private readonly guard: AnswerGuard | undefined;
  /** What the guard looks at, one after the other. */
  private looks: Promise<void> = Promise.resolve();
  /** What the guard refuses. */
  private failure: unknown;
  /** The head of an answer that is looked at as a whole. */
  private head: { status: number; headers: Headers } | undefined;
  private controller: Controller | undefined;
  private valve: Valve | undefined;
  private form: 'stream' | 'whole' | undefined;
  private chunks: Buffer[] = [];
  private bytes = 0;
  private is_over = false;
  private is_abandoned = false;
  private is_stopped = false;
  private wrote_at = 0;
  private keep_alive: NodeJS.Timeout | undefined;
  private detached: NodeJS.Timeout | undefined;

  constructor(call: Identified, sent: Sent) {
    this.call = call;
    this.sent = sent;
    this.guard = withHiddenTools(sent.hides, createGuard(call, sent.paid));
    call.onClientGone(() => this.clientGone());
    call.abort = (reason) => {
      this.is_stopped = true;
      this.controller?.abort(reason);
    };
  }

  onRequestStart(controller: Controller): void {
    this.controller = controller;
    if (this.call.client_is_gone) controller.abort(new Error('The client has gone.'));
    else this.settle();
  }

  onResponseStart(controller: Controller, status: number, headers: Headers): void {
    if (status < 200) return;
    const trouble = serverTrouble(status, headers);
    if (trouble !== undefined) {
      controller.abort(new AppError('upstream_failed', trouble));
      return;
    }
    const type = String(headers['content-type'] ?? '');
    this.form = /^text\/event-stream/i.test(type) ? 'stream' : 'whole';
    this.valve = new Valve(this.call, controller);
    if (this.call.client_is_gone) return;
    if (this.form === 'whole' && this.guard !== undefined) {
      this.head = { status, headers };
      return;
    }
    const { ctx } = this.call;
    ctx.respond = false;
    ctx.res.writeHead(status, this.headersBack(status, headers));
    if (this.form === 'whole') return;
    this.valve.flushSoon();
    const { keep_alive_ms } = this.call.snapshot.settings.mcp;
    this.keep_alive = setInterval(() => this.keepAlive(keep_alive_ms), keep_alive_ms);
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.form === 'stream') this.passFrames(chunk);
    else this.passBytes(chunk);
    if (this.call.client_is_gone && this.isAnswered()) this.giveUp();
  }

  onResponseEnd(): void {
    this.finish(undefined);
  }

  onResponseError(_controller: Controller, error: Error): void {
    this.finish(error);
  }

  /** Whole events only, so that a comment never falls into one. */
  private passFrames(chunk: Buffer): void {
    const frames = readFrames(this.sse, chunk);
    for (const { data, bytes } of frames) {
      if (/^id:/m.test(bytes.toString('latin1', 0, ID_LOOKED_FOR_BYTES))) {
        this.answered.is_resumable = true;
      }
      if (data !== undefined) readAnswer(data, this.answered);
    }
    if (this.guard === undefined) {
      this.wrote_at = performance.now();
      this.valve?.write(Buffer.concat(frames.map(bytesOf)));
    } else if (frames.length > 0) this.passGuarded(this.guard, frames);
  }

  private passGuarded(guard: AnswerGuard, frames: readonly Frame[]): void {
    this.controller?.pause();
    this.look(async () => {
      const bytes = await guard.frames(frames);
      this.valve?.write(bytes);
      // A client that does not read is waited for: then the valve resumes.
      if (!this.valve?.isStalled()) this.controller?.resume();
      if (bytes.length > 0) this.wrote_at = performance.now();
    });
  }

  private look(step: () => Promise<void>): void {
    this.looks = this.looks
      .then(() => (this.failure === undefined ? step() : undefined))
      .catch((failure: unknown) => {
        this.failure = failure;
        this.controller?.abort(failure as Error);
      });
  }

  private passBytes(chunk: Buffer): void {
    this.bytes += chunk.length;
    const is_kept = this.sent.paid.size > 0 || this.guard !== undefined;
    if (is_kept && this.bytes <= JSON_MAX_BYTES) this.chunks.push(chunk);
    if (this.guard === undefined) this.valve?.write(chunk);
    else if (this.bytes > JSON_MAX_BYTES) this.look(() => Promise.reject(tooLong()));
  }

  private async passWhole(guard: AnswerGuard, { status, headers }: NonNullable<typeof this.head>) {
    const bytes = Buffer.from(await guard.whole(Buffer.concat(this.chunks).toString('utf8')));
    const { client_is_gone, ctx } = this.call;
    if (client_is_gone) return;
    const back = this.headersBack(status, headers);
    if ('content-length' in back) back['content-length'] = String(bytes.length);
    ctx.respond = false;
    ctx.res.writeHead(status, back);
    this.valve?.write(bytes);
  }

  private keepAlive(every_ms: number): void {
    if (performance.now() - this.wrote_at < every_ms / 2) return;
    this.valve?.write(Buffer.from(': keep-alive\n\n'));
  }

  private clientGone(): void {
    if (this.is_over || this.controller === undefined) return;
    if (!this.sent.goes_on || this.isAnswered()) {
      this.giveUp();
      return;
    }
    this.detached = setTimeout(() => this.giveUp(), this.call.snapshot.settings.mcp.detached_ms);
    this.controller.resume();
  }

  private isAnswered(): boolean {
    return this.sent.ids.every((id) => this.answered.results.has(idKey(id)));
  }

  private giveUp(): void {
    this.is_abandoned = true;
    this.controller?.abort(new Error('The client has gone.'));
  }

  private finish(error: Error | undefined): void {
    if (this.is_over) return;
    this.is_over = true;
    clearInterval(this.keep_alive);
    clearTimeout(this.detached);
    const { guard, head } = this;
    if (guard === undefined) this.end(error);
    else {
      if (head !== undefined && error === undefined) this.look(() => this.passWhole(guard, head));
      void this.looks.then(() => this.end(error));
    }
  }

  private end(error: Error | undefined): void {
    try {
      this.conclude(error);
      this.over.resolve();
    } catch (failure) {
      this.over.reject(failure);
    }
  }

  private conclude(error: Error | undefined): void {
    const { form, call, valve } = this;
    if (form === 'whole') this.readWhole(error);
    // If the gateway stops, the client leaves or nobody reads on before an answer, the tool may
    // have run: it is paid for.
    if (this.controller !== undefined) this.is_abandoned ||= this.is_stopped || !!this.failure;
    this.settle();
    if (form === undefined || (this.head !== undefined && !call.ctx.res.headersSent)) {
      if (!call.client_is_gone) throw this.failure ?? upstreamError(error);
    } else if (form === 'whole') {
      if (error === undefined) valve?.end();
      else call.ctx.res.destroy();
    } else {
      this.endStream((this.failure as Error | undefined) ?? error);
    }
  }

  private readWhole(error: Error | undefined): void {
    if (error !== undefined) return;
    if (this.bytes <= JSON_MAX_BYTES) {
      readAnswer(Buffer.concat(this.chunks).toString('utf8'), this.answered);
    } else for (const id of this.sent.ids) this.answered.results.set(idKey(id), true);
  }

  /**
   * A client must not wait for an answer that never comes; one that can fetch it later is left to
   * do so.
   */
  private endStream(error: Error | undefined): void {
    // Clients leave out an event that never ended; unread it goes to none.
    if (error === undefined && !this.guard) this.valve?.write(unfinished(this.sse));
    const missing = this.sent.ids.filter((id) => !this.answered.results.has(idKey(id)));
    if (missing.length > 0 && !this.answered.is_resumable && !this.call.is_listening) {
      const request_id = this.call.ctx.state.request_id as string;
      const errors = rpcErrors(upstreamError(error), { ids: missing, request_id });
      const text = errors.map((error) => `event: message\ndata: ${error}\n\n`).join('');
      this.valve?.write(Buffer.from(text));
    }
    this.valve?.end();
  }

  private settle(): void {
    for (const [id, call] of this.sent.paid) {
      call.outcome = outcomeOfTool(id, this.answered, this.is_abandoned);
    }
  }

  private headersBack(status: number, headers: Headers): Record<string, string> {
    const back: Record<string, string> = {};
    for (const name of Object.keys(headers)) {
      const value = headers[name];
      if (typeof value !== 'string') continue;
      if (name === 'mcp-session-id') back[name] = this.sent.sealSession(value);
      else if (name.startsWith('mcp-') || client_headers.includes(name)) back[name] = value;
    }
    if (status === 429) Object.assign(back, limitHeaders(headers));
    if (this.form === 'stream') back['x-accel-buffering'] = 'no';
    else if (typeof headers['content-length'] === 'string') {
      back['content-length'] = headers['content-length'];
    }
    return back;
  }
}

// An event's id stands before its data.
const ID_LOOKED_FOR_BYTES = 512;

function bytesOf({ bytes }: Frame): Buffer {
  return bytes;
}

function tooLong(): AppError {
  return new AppError('upstream_failed', 'The answer of the server is longer than a policy reads.');
}
