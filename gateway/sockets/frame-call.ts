import type { IncomingMessage } from 'node:http';
import { AppError, errorHeaders } from '../../domain/errors';
import { newId } from '../../domain/ids';
import { toRefusal } from '../../runtime/conventions';
import { addToLine, type createRequestLog } from '../../runtime/request-log';
import type { Begun, Gateway } from '../call/call';
import type { FrameSide, RequestHead } from '../call/client-side';
import { runCall } from '../call/run';
import { priced } from '../pipeline';
import { withCost } from '../stages/cost-member';
import type { Arrival } from '../wire/read';
import { errorFrame, type Protocol, refusalFrame } from './frames';
import { type Link, SocketResponse } from './response';

/** The socket that a frame came from. */
export interface Opened {
  gateway: Gateway;
  /** The request that opened it. */
  request: IncomingMessage;
  protocol: Protocol;
  link: Link;
  /** The arrival of a frame, within the share of whose the socket is. */
  arrive: () => Arrival;
  /** Begins the line of a frame in the log. */
  begin: ReturnType<typeof createRequestLog>;
}

type Ended = Pick<Begun, 'outcome' | 'cost'>;

// A ticket pays for one call, so each frame brings its own.
const TICKET_HEADER = 'x-svc-cost-ticket';

/** One frame that asks, and its answer: a call like that of an HTTP request. */
export class SocketCall implements FrameSide {
  readonly method = 'FRAME';
  readonly path: string;
  readonly req: RequestHead;
  readonly res: SocketResponse;
  readonly state: Record<string, unknown>;
  given: Buffer = Buffer.alloc(0);
  status = 404;
  body: unknown;
  respond = true;
  private readonly headers: Record<string, string | string[]> = {};
  private readonly opened: Opened;
  private readonly finish: () => void;
  private is_answered = false;
  private is_finished = false;
  private has_left = false;

  constructor(opened: Opened, stream_id: string | undefined) {
    const { protocol, request, link } = opened;
    this.opened = opened;
    this.path = protocol.route;
    this.state = { request_id: newId('req'), logged: { route: protocol.route } };
    this.res = new SocketResponse(link, protocol, stream_id);
    const { [TICKET_HEADER]: _, ...headers } = request.headers;
    this.req = { headers, socket: request.socket };
    this.finish = opened.begin(this);
  }

  get request_id(): string {
    return this.state.request_id as string;
  }

  ask(body: Buffer, cost_ticket: string | undefined): void {
    this.given = body;
    if (cost_ticket !== undefined) this.req.headers[TICKET_HEADER] = cost_ticket;
  }

  get(name: string): string {
    return String(this.req.headers[name.toLowerCase()] ?? '');
  }

  set(name: string | Record<string, string | string[]>, value: string | string[] = ''): void {
    if (typeof name === 'string') this.headers[name.toLowerCase()] = value;
    else for (const [one, its] of Object.entries(name)) this.set(one, its);
  }

  /** Runs the pipeline. Sends a refusal in a frame, and returns it. */
  async run(): Promise<AppError | undefined> {
    const { gateway, protocol } = this.opened;
    let ended: Ended | undefined;
    try {
      await runCall({ ctx: this, gateway, family: protocol.family }, async (call) => {
        call.onEnd(() => {
          ended = call;
        });
        await priced(call);
      });
      if (!this.has_left) await this.conclude(ended);
      return undefined;
    } catch (error) {
      if (!this.has_left) return this.refuse(error);
      // The client has left, but a bug is logged.
      toRefusal(this, error, gateway.log);
      return undefined;
    } finally {
      this.finishLine();
    }
  }

  /** Tells in a frame why there is no answer, or no whole one. */
  refuse(error: unknown): AppError {
    const known = toRefusal(this, error, this.opened.gateway.log);
    addToLine(this, { code: known.code });
    if (!this.is_answered) this.refuseNow(known);
    this.finishLine();
    return known;
  }

  refuseNow(refusal: AppError): void {
    this.is_answered = true;
    this.set(errorHeaders(refusal));
    const { request_id, headers } = this;
    this.end(refusal.status, errorFrame(refusal, { request_id, headers }));
  }

  /** The client has gone, or is sent away. */
  leave(): void {
    this.has_left = true;
    this.res.destroy();
  }

  /** The client has gone before its turn came. */
  forget(): void {
    this.leave();
    this.finishLine();
  }

  private async conclude(ended: Ended | undefined): Promise<void> {
    const { res, opened } = this;
    if (!res.headersSent) {
      const { status, headers, body } = this;
      if (Buffer.isBuffer(body)) this.end(status, refusalFrame(body, { status, headers }));
      return;
    }
    if (!res.closed) await new Promise((resolve) => res.once('close', resolve));
    if (!res.writableFinished) {
      throw new AppError('upstream_failed', 'The answer broke off before it was complete.');
    }
    if (opened.protocol.done !== undefined && ended !== undefined && !res.has_failed) {
      const text = JSON.stringify(opened.protocol.done(ended.outcome));
      res.say((ended.cost && withCost(text, ended.cost)) ?? text);
    }
  }

  private end(status: number, frame: string): void {
    const { res } = this;
    if (!res.headersSent) res.statusCode = status;
    res.headersSent = true;
    res.say(frame);
    res.end();
  }

  /** One line a frame, whichever way it ended. */
  private finishLine(): void {
    if (!this.is_finished) this.finish();
    this.is_finished = true;
  }
}
