import type { AppError } from '../../domain/errors';
import type { Funded } from '../call/call';
import type { Measured } from '../families/reader';

// All that comes back.
const client_headers = [
  'content-type',
  'cache-control',
  'openai-processing-ms',
  'openai-version',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
];

export type Headers = Record<string, string | string[] | undefined>;

/** The status and headers that an answer came with. */
export interface Head {
  status: number;
  headers: Headers;
}

/** What becomes of an answer's bytes: a refusal, a JSON body, sound or a stream. */
export interface Answer {
  /** Takes bytes of it, without compression. */
  push(chunk: Buffer): void;
  /** All that a settlement needs is known. */
  isMeasured(): boolean;
  /** Ends the client's response, if there is one to be ended. */
  end(error: Error | undefined): Promise<Ended>;
  /** The client will get no more of it, whatever still comes. */
  isRefused?(): boolean;
}

/** What an answer has come to. */
export type Ended =
  /** It was delivered, or a policy withheld it: it is settled at what was measured. */
  | {
      measured: Measured;
      /** The client gets this in its place; it may have got it already. */
      refusal?: AppError | undefined;
      nothing?: never;
    }
  /** What came is no answer, and the client has got nothing of it. */
  | { nothing: NoAnswer; measured?: never };

/** What came in the place of an answer. */
export interface NoAnswer {
  /** What the provider says of it. */
  said?: unknown;
  /** It broke off: the provider may have done its work. */
  error?: Error | undefined;
}

/** Takes the response over from Koa and writes its head. */
export function open(
  { ctx, gateway }: Funded,
  status: number,
  headers: Record<string, string>,
): void {
  ctx.respond = false;
  if (gateway.is_draining) headers.connection = 'close';
  ctx.res.writeHead(status, headers);
}

/** The headers of a provider's answer that clients are given. */
export function picked(headers: Headers): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of client_headers) {
    const value = headers[name];
    if (typeof value === 'string') kept[name] = value;
  }
  return kept;
}
