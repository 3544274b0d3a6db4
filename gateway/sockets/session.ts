import { setImmediate as nextTurn } from 'node:timers/promises';
import { type RawData, WebSocket } from 'ws';
import { AppError } from '../../domain/errors';
import { createRequestLog } from '../../runtime/request-log';
import type { SocketSettings } from '../config/sockets';
import { checkKeys } from '../wire/members';
import { parseBody } from '../wire/parse';
import type { Arrival } from '../wire/read';
import { readTo } from '../wire/unread';
import { type Opened, SocketCall } from './frame-call';
import { asked, laneOf } from './frames';
import { bytesExceeded, streamsExceeded, tooSlow } from './refusals';
import type { Link } from './response';
import { watchUnfinished } from './unfinished';

// Above the first the answers of a client that reads slowly are held back, below the second they go
// on.
const UNREAD_MAX_BYTES = 1_048_576;
const UNREAD_LOW_BYTES = 262_144;
// Who sends on without reading this much is cut.
const UNREAD_CUT_BYTES = 67_108_864;

// The system holds some megabytes for a client, and what it reads of those is not seen here.
const UNREAD_PINGS = 4;

// Close codes: clients open another connection after the first, and none after the others.
const GOING_AWAY = 1001;
const NOT_TEXT = 1003;
const NOT_ALLOWED = 1008;
const TOO_LARGE = 1009;

interface Waiting {
  call: SocketCall;
  /** Its bytes count as those of a body that arrives. */
  arrival: Arrival;
}

interface Ending {
  code: number;
  /** The error for frames that come meanwhile. */
  error: AppError;
}

/**
 * One connection: its frames run through the pipeline, in order within a lane, lanes side by side.
 */
export class SocketSession implements Link {
  private readonly ws: WebSocket;
  private readonly opened: Opened;
  private readonly settings: SocketSettings;
  /** What waits, by the lane that runs. */
  private readonly lanes = new Map<string, Waiting[]>();
  private readonly running = new Set<SocketCall>();
  private waiting_frames = 0;
  private waiting_bytes = 0;
  private steps: (() => void)[] = [];
  private ending: Ending | undefined;
  private is_alive = true;
  /** How many pings may stay without an answer. */
  private patience = 1;
  /** How far the client had read at the last ping, if it had not read all. */
  private read_to: string | undefined;
  private is_paused = false;
  private readonly pings: NodeJS.Timeout;
  private readonly lifetime: NodeJS.Timeout;

  constructor(ws: WebSocket, opened: Omit<Opened, 'link' | 'begin'>) {
    this.ws = ws;
    this.opened = { ...opened, link: this, begin: createRequestLog(opened.gateway.log) };
    this.settings = opened.gateway.snapshot.settings.sockets;
    const { ping_ms, lifetime_ms } = this.settings;
    this.pings = setInterval(() => void this.ping(), ping_ms).unref();
    this.lifetime = setTimeout(() => this.growOld(), lifetime_ms).unref();
    const { socket } = opened.request;
    watchUnfinished(
      { ws, socket, arrival: opened.arrive() },
      {
        onFull: () => this.cutOff(TOO_LARGE, bytesExceeded(this.arriving_limit_bytes)),
        onSlow: () => this.cutOff(NOT_ALLOWED, tooSlow()),
      },
    );
    ws.on('message', (data, is_binary) => this.take(data, is_binary));
    ws.on('pong', () => {
      this.is_alive = true;
    });
    ws.on('error', (error) => opened.gateway.log.debug({ err: error }, 'a socket broke'));
    ws.on('close', () => this.closed());
  }

  send(text: string): void {
    this.ws.send(text, this.onSent);
  }

  gather(): void {
    const { socket } = this.opened.request;
    socket.cork();
    process.nextTick(() => socket.uncork());
  }

  whenRoom(step: () => void): void {
    if (this.ws.bufferedAmount <= UNREAD_MAX_BYTES) step();
    else this.steps.push(step);
  }

  /** This gateway stops: no further frame is taken, and what runs may end. */
  drain(): void {
    const error = new AppError(
      'unavailable',
      'This gateway stops. Connect again; another one answers.',
    );
    this.leave({ code: GOING_AWAY, error });
  }

  terminate(): void {
    this.ws.terminate();
  }

  private readonly onSent = (): void => {
    if (this.steps.length === 0 && !this.is_paused) return;
    if (this.ws.bufferedAmount > UNREAD_LOW_BYTES) return;
    if (this.is_paused) {
      this.is_paused = false;
      this.ws.resume();
    }
    const { steps } = this;
    this.steps = [];
    for (const step of steps) step();
  };

  private take(data: RawData, is_binary: boolean): void {
    if (this.ws.readyState !== WebSocket.OPEN) return;
    if (is_binary) {
      this.ws.close(NOT_TEXT, 'Send text frames.');
      return;
    }
    let call: SocketCall | undefined;
    try {
      const text = data.toString();
      const frame = parseBody(text);
      checkKeys(text);
      const stream_id = laneOf(frame);
      call = new SocketCall(this.opened, stream_id);
      if (this.ending !== undefined) throw this.ending.error;
      const { body, cost_ticket } = asked(text, frame, this.opened.protocol);
      call.ask(body, cost_ticket);
      this.enqueue(call, stream_id ?? '');
    } catch (error) {
      call ??= new SocketCall(this.opened, undefined);
      call.refuse(error);
    }
    this.holdBack();
  }

  /** Each frame is answered, so of a client that does not read no further one is read. */
  private holdBack(): void {
    const { bufferedAmount } = this.ws;
    if (bufferedAmount > UNREAD_CUT_BYTES) this.ws.terminate();
    else if (bufferedAmount > UNREAD_MAX_BYTES && !this.is_paused) {
      this.is_paused = true;
      this.ws.pause();
    }
  }

  private enqueue(call: SocketCall, lane: string): void {
    const waiting = this.lanes.get(lane);
    if (waiting === undefined) {
      const { lanes_max } = this.settings;
      if (this.lanes.size >= lanes_max) throw streamsExceeded('lanes', lanes_max);
      this.lanes.set(lane, []);
      void this.run(call, lane);
      return;
    }
    const bytes = this.waiting_bytes + call.given.length;
    const { body_limit_bytes } = this.opened.gateway.snapshot.settings;
    const { waiting_max } = this.settings;
    if (this.waiting_frames >= waiting_max) throw streamsExceeded('waiting frames', waiting_max);
    if (bytes > body_limit_bytes)
      throw streamsExceeded('bytes of waiting frames', body_limit_bytes);
    const arrival = this.opened.arrive();
    try {
      arrival.take(call.given.length);
    } catch {
      throw bytesExceeded(this.arriving_limit_bytes);
    }
    this.waiting_frames += 1;
    this.waiting_bytes = bytes;
    waiting.push({ call, arrival });
  }

  private get arriving_limit_bytes(): number {
    return this.opened.gateway.snapshot.settings.arriving_limit_bytes;
  }

  private async run(first: SocketCall, lane: string): Promise<void> {
    for (let call: SocketCall | undefined = first; call !== undefined; call = this.next(lane)) {
      this.running.add(call);
      const refusal = await call.run();
      this.running.delete(call);
      if (refusal?.status === 401) this.leave({ code: NOT_ALLOWED, error: refusal });
    }
    this.lanes.delete(lane);
    this.closeIfIdle();
  }

  private next(lane: string): SocketCall | undefined {
    const waiting = this.lanes.get(lane)?.shift();
    if (waiting === undefined) return undefined;
    const { call, arrival } = waiting;
    arrival.end();
    this.waiting_frames -= 1;
    this.waiting_bytes -= call.given.length;
    return call;
  }

  /** Refuses what waits and what comes, and closes once nothing runs. */
  private leave(ending: Ending): void {
    if (this.ending !== undefined) return;
    this.ending = ending;
    for (const lane of this.lanes.keys()) {
      for (let call = this.next(lane); call !== undefined; call = this.next(lane)) {
        call.refuse(ending.error);
      }
    }
    this.closeIfIdle();
  }

  private closeIfIdle(): void {
    if (this.ending === undefined || this.running.size > 0) return;
    this.ws.close(this.ending.code, this.ending.error.message);
  }

  /** A frame that is not whole cannot be refused alone: the socket ends with what runs on it. */
  private cutOff(code: number, error: AppError): void {
    const { socket } = this.opened.request;
    new SocketCall(this.opened, undefined).refuse(error);
    this.leave({ code, error });
    this.ws.close(code, error.message);
    // What still comes is dropped, so no close of the client is seen.
    socket.removeAllListeners('data').resume();
    socket.end();
  }

  private growOld(): void {
    const error = new AppError(
      'websocket_connection_limit_reached',
      'This connection has reached its age limit. Open another one.',
    );
    if (this.ending === undefined) new SocketCall(this.opened, undefined).refuse(error);
    this.leave({ code: GOING_AWAY, error });
  }

  private async ping(): Promise<void> {
    const { gateway, request } = this.opened;
    // A pong that has arrived while this process was busy counts.
    await nextTurn();
    if (this.ws.readyState !== this.ws.OPEN) return;
    const { read_to } = this;
    this.read_to = readTo(request.socket);
    const is_reading = read_to !== undefined && read_to !== this.read_to;
    const has_unread = is_reading || this.read_to !== undefined;
    // The pong of a client that reads on slowly stands behind what it has not read.
    if (this.is_alive || is_reading) this.patience = has_unread ? UNREAD_PINGS : 1;
    else this.patience -= 1;
    if (this.patience === 0) {
      this.ws.terminate();
      return;
    }
    this.is_alive = false;
    this.ws.ping();
    try {
      await gateway.snapshot.identifier.who(request);
    } catch (error) {
      const { status } = error as AppError;
      if (status === 401) this.leave({ code: NOT_ALLOWED, error: error as AppError });
    }
  }

  private closed(): void {
    clearInterval(this.pings);
    clearTimeout(this.lifetime);
    for (const lane of this.lanes.keys())
      for (let call = this.next(lane); call !== undefined; call = this.next(lane)) call.forget();
    for (const call of this.running) call.leave();
    this.steps = [];
  }
}
