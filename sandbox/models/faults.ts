import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';
import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises';
import { createBrotliCompress, createGzip, type Gzip, constants as zlib } from 'node:zlib';

/**
 * Misbehaviour on demand. Two ways ask for it: the header `x-sandbox-fault: cut after=3; slow
 * delay=20`, and, because a gateway drops that header, `[[fault:cut after=3]]` in the last user
 * message (or an embedding's input).
 *
 *   error status=429         an error before the first byte
 *   reset                    the socket dies before the first byte
 *   cut after=3              the socket dies after 3 frames
 *   cut-end                  the socket dies behind the last frame of a stream
 *   end after=3              a clean end without [DONE] after 3 frames
 *   silence after=0          nothing more after that many frames
 *   error-frame after=3      an `error` object inside the stream
 *   slow delay=20            ms between frames, or before a JSON body
 *   comments count=5 delay=50  comment lines before the first frame
 *   chunks count=200         that many content frames
 *   big-line size=1000000    one frame of that many characters
 *   no-usage                 usage is never sent
 *   usage-last               usage on the last frame that has a choice
 *   usage-each               usage so far with every chunk
 *   usage prompt= completion= cached= reasoning=  other figures than the counted ones; write=,
 *                            write1h=, searches= and compaction= on Anthropic's wire
 *   gzip, br                 compressed although identity was asked
 *   crlf, cr                 line ends of the stream
 *   count tokens=7, nothing  a count of tokens only: another number; an answer without one
 *   fail                     Responses only: the answer says that it failed, without usage
 *   bytes                    one byte a write
 *   html, redirect, plain    200 with a page; 302; an error that is not JSON
 *
 * A key of the form `sk-refused-401-...` is refused with that status, whatever is asked, in words
 * that repeat it.
 */
export type Faults = Readonly<Record<string, number | true>>;

const directive = /\[\[fault:([^\]]+)\]\]/g;

/** The faults that a request asks for, by header or by directive in its text. */
export function faultsOf(header: string | undefined, text: string): Faults {
  const found = [...text.matchAll(directive)].map((match) => match[1] ?? '');
  return parse([header ?? '', ...found].join(' '));
}

/** The text without directives, so that answers echo what a person wrote. */
export function withoutFaults(text: string): string {
  return text.replaceAll(directive, '').trim();
}

function parse(text: string): Faults {
  const words = text.split(/[\s;,]+/).filter((word) => word !== '');
  return Object.fromEntries(
    words.map((word) => {
      const [name = '', value] = word.split('=');
      return [name, value === undefined ? true : Number(value)];
    }),
  );
}

/** A number that a fault carries, or the given default. */
export function figure(faults: Faults, name: string, otherwise: number): number {
  const value = faults[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : otherwise;
}

/** Answers in place of the model if a fault asks for it; true if nothing more is to be sent. */
export function answeredByFault(
  res: ServerResponse,
  faults: Faults,
  refuseWith: typeof refuse = refuse,
): boolean {
  if (faults.reset) res.destroy();
  else if (faults.html) page(res, 200);
  else if (faults.plain) page(res, figure(faults, 'status', 502));
  else if (faults.redirect) res.writeHead(302, { location: 'http://127.0.0.1:9/elsewhere' }).end();
  else if (faults.error) refuseWith(res, figure(faults, 'status', 500), 'A fault was asked for.');
  else return Boolean(faults.silence) && figure(faults, 'after', 0) === 0;
  return true;
}

function page(res: ServerResponse, status: number): void {
  res.writeHead(status, { 'content-type': 'text/html; charset=utf-8' });
  res.end('<!doctype html><title>Welcome</title><p>This is a page, not a model.');
}

/** An error in OpenAI's shape. */
export function refuse(res: ServerResponse, status: number, message: string, code = 'sandbox') {
  const type = status >= 500 ? 'server_error' : 'invalid_request_error';
  sendError(res, status, { error: { message, type, param: null, code } });
}

/** Refuses a key that asks for it; true if it did. */
export function refusesKey(
  res: ServerResponse,
  key: string | undefined,
  refuseWith: typeof refuse = refuse,
): boolean {
  const [, status] = /^(?:Bearer )?sk-refused-(\d{3})/.exec(key ?? '') ?? [];
  if (status === undefined) return false;
  const code = status === '429' ? 'rate_limit_exceeded' : 'invalid_api_key';
  refuseWith(res, Number(status), `Incorrect API key provided: ${key}.`, code);
  return true;
}

/** The body of an error, with the members that each provider adds. */
export function sendError(res: ServerResponse, status: number, body: object): void {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (status === 429) headers['retry-after'] = '1';
  res.writeHead(status, headers);
  res.end(JSON.stringify(body));
}

/** Sends a JSON body, compressed, slow, cut or byte by byte as asked. */
export function sendJson(res: ServerResponse, body: unknown, faults: Faults): Promise<void> {
  return sendBytes(res, Buffer.from(JSON.stringify(body)), faults, 'application/json');
}

/** The same of any bytes. */
export async function sendBytes(
  res: ServerResponse,
  bytes: Buffer,
  faults: Faults,
  content_type: string,
): Promise<void> {
  if (faults.slow) await sleep(figure(faults, 'delay', 20));
  const out = open(res, faults, content_type);
  if (!faults.cut) {
    await write(out, res, bytes, faults);
    out.end();
    return;
  }
  await write(out, res, bytes.subarray(0, bytes.length / 2), faults);
  // Bytes that were written before leave first.
  await sleep(5);
  res.destroy();
}

/** The frames of a stream, and the one in which its wire reports an error. */
export interface Frames {
  frames: readonly string[];
  error: string;
}

const broken = { message: 'The model broke.', type: 'server_error', param: null, code: 'broken' };

/** Unnamed frames of these texts, as OpenAI sends them. */
export function dataFrames(texts: readonly string[]): Frames {
  const frame = (text: string) => `data: ${text}\n\n`;
  return { frames: texts.map(frame), error: frame(JSON.stringify({ error: broken })) };
}

/** Frames named by the `type` of these events. */
export function namedFrames(events: readonly { type: string }[], error: { type: string }): Frames {
  const frame = (event: { type: string }) =>
    `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
  return { frames: events.map(frame), error: frame(error) };
}

/** Sends a stream with the faults asked for. `sent` is called for each frame that left. */
export async function sendFrames(
  res: ServerResponse,
  { frames, error }: Frames,
  faults: Faults,
  sent: () => void,
): Promise<void> {
  const out = open(res, faults, 'text/event-stream; charset=utf-8');
  const after = figure(faults, 'after', 3);
  const delay_ms = faults.slow ? figure(faults, 'delay', 20) : 0;
  await comments(out, res, faults);
  for (const [index, frame] of frames.entries()) {
    if (res.destroyed) return;
    if (index === after && (await interrupted(out, res, faults, error))) return;
    await write(out, res, Buffer.from(withLineEnds(frame, faults)), faults);
    sent();
    if (delay_ms > 0) await sleep(delay_ms);
  }
  if (!faults['cut-end']) {
    out.end();
    return;
  }
  // Bytes that were written before leave first.
  await sleep(5);
  res.destroy();
}

type Sink = Pick<Writable, 'write' | 'end' | 'on' | 'off'>;

function open(res: ServerResponse, faults: Faults, content_type: string): Sink {
  const encoding = faults.gzip ? 'gzip' : faults.br ? 'br' : undefined;
  const headers = { 'content-type': content_type, 'x-sandbox': 'models', 'set-cookie': 'a=1' };
  res.writeHead(200, encoding ? { ...headers, 'content-encoding': encoding } : headers);
  if (encoding === undefined) return res;
  const packer =
    encoding === 'gzip'
      ? createGzip({ flush: zlib.Z_SYNC_FLUSH })
      : createBrotliCompress({ flush: zlib.BROTLI_OPERATION_FLUSH });
  packer.pipe(res);
  return packer;
}

async function write(out: Sink, res: ServerResponse, bytes: Buffer, faults: Faults): Promise<void> {
  if (!faults.bytes) {
    if (!out.write(bytes)) await drained(out, res);
    return;
  }
  for (let at = 0; at < bytes.length && !res.destroyed; at += 1) {
    out.write(bytes.subarray(at, at + 1));
    await immediate();
  }
}

/** Waits until the written bytes have left, or the client has. */
function drained(out: Sink, res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      out.off('drain', done);
      res.off('close', done);
      resolve();
    };
    out.on('drain', done);
    res.on('close', done);
  });
}

async function comments(out: Sink, res: ServerResponse, faults: Faults): Promise<void> {
  if (!faults.comments) return;
  for (let sent = 0; sent < figure(faults, 'count', 5) && !res.destroyed; sent += 1) {
    out.write(Buffer.from(': keep-alive\n\n'));
    await sleep(figure(faults, 'delay', 50));
  }
}

/** Ends, cuts or silences a stream in its middle; true if no frame follows. */
async function interrupted(
  out: Sink,
  res: ServerResponse,
  faults: Faults,
  error: string,
): Promise<boolean> {
  // Bytes that were written before leave first.
  if ('flush' in out) await new Promise<void>((resolve) => (out as Gzip).flush(resolve));
  await sleep(5);
  if (faults.cut) res.destroy();
  else if (faults.end) out.end();
  else if (faults['error-frame']) {
    out.write(Buffer.from(withLineEnds(error, faults)));
    out.end();
  } else return Boolean(faults.silence);
  return true;
}

function withLineEnds(frame: string, faults: Faults): string {
  const end = faults.crlf ? '\r\n' : faults.cr ? '\r' : '\n';
  return frame.replaceAll('\n', end);
}
