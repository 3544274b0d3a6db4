import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { request } from 'undici';

/** One arrived request, and what the server that got it knows. */
export interface Visit {
  method: string;
  /** The path below the provider's own prefix, with its query. */
  path: string;
  /** The same as it came. */
  url: string;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
  body: Record<string, unknown>;
  res: ServerResponse;
  /** Where the sandbox's models answer on the plain wires. */
  models_url: string;
}

const NAMES: readonly [RegExp, string][] = [
  [/claude/, 'claude-sonnet-4-5'],
  [/embed/, 'text-embedding-3-small'],
  [/whisper|transcri/, 'whisper-1'],
  [/tts/, 'gpt-4o-mini-tts'],
  [/moderation/, 'omni-moderation-latest'],
];

/** The sandbox's model that answers for one of a provider's name. */
export function standIn(model: string): string {
  return NAMES.find(([pattern]) => pattern.test(model))?.[1] ?? 'gpt-4o-mini';
}

/** What the sandbox's models answer to this body. */
export async function answerOf({ models_url }: Visit, path: string, body: object) {
  return request(`${models_url}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: 'Bearer sandbox',
      'x-api-key': 'sandbox',
      'anthropic-version': '2023-06-01',
    },
    body: JSON.stringify(body),
  });
}

/** Answers as the sandbox's models do, byte by byte. */
export async function relay(visit: Visit, path: string, body: object): Promise<void> {
  pass(visit, await answerOf(visit, path, body));
}

/** What the sandbox's models answered. */
export type Given = Awaited<ReturnType<typeof answerOf>>;

/** Passes on what they answered, byte by byte. */
export function pass(visit: Visit, answer: Given): void {
  const type = String(answer.headers['content-type'] ?? 'application/json');
  visit.res.writeHead(answer.statusCode, { 'content-type': type });
  answer.body.on('error', () => visit.res.destroy());
  answer.body.pipe(visit.res);
}

/** Relays a form with a sound, under the name of the sandbox's own model. */
export async function relayForm(
  { bytes, res, models_url }: Visit,
  path: string,
  type: string,
): Promise<void> {
  const text = bytes.toString('latin1').replace(/(name="model"\r\n\r\n)[^\r]+/, '$1whisper-1');
  const given = await request(`${models_url}${path}`, {
    method: 'POST',
    headers: { 'content-type': type, authorization: 'Bearer sandbox' },
    body: Buffer.from(text, 'latin1'),
  });
  res.writeHead(given.statusCode, { 'content-type': String(given.headers['content-type']) });
  given.body.pipe(res);
}

/** Answers with JSON. */
export function answer(
  { res }: Pick<Visit, 'res'>,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(JSON.stringify(body));
}

/** The text of the last message, where faults are asked for. */
export function lastText(body: Record<string, unknown>): string {
  return JSON.stringify((body.messages as unknown[] | undefined)?.at(-1) ?? body.input ?? '');
}

/** What sellers of Claude say to a tool's member that its maker alone takes; undefined: none is. */
export function eagerTool({ tools }: Record<string, unknown>): string | undefined {
  if (!Array.isArray(tools)) return undefined;
  const n = tools.findIndex((tool) => Object.hasOwn(Object(tool), 'eager_input_streaming'));
  if (n === -1) return undefined;
  return `tools.${n}.custom.eager_input_streaming: Extra inputs are not permitted`;
}
