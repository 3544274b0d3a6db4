import { type Faults, faultsOf } from '../models/faults';
import { sendBinary } from './binary-stream';
import { serveConverse } from './converse';
import { chunkFrame } from './frames';
import { answer, answerOf, eagerTool, lastText, relay, standIn, type Visit } from './relay';
import { type Signing, signatureError } from './sigv4';

/**
 * Bedrock's runtime: a signature over the raw path, or a Bedrock key; Messages by InvokeModel,
 * whose body has no model and no member that it does not know; Converse; binary streams; OpenAI's
 * wire beside it.
 *
 * Faults, asked for in the last message: those of binary streams, `late-usage` (what a cache gave
 * stands in the last event alone), `throttled`.
 */
export interface BedrockOptions extends Omit<Signing, 'now' | 'service'> {
  /** Keys of Bedrock itself. */
  bearers: ReadonlySet<string>;
  now: () => Date;
}

const known = new Set([
  'anthropic_version',
  'anthropic_beta',
  'max_tokens',
  'messages',
  'system',
  'temperature',
  'top_p',
  'top_k',
  'tools',
  'tool_choice',
  'stop_sequences',
  'thinking',
  'metadata',
  'output_config',
  'context_management',
]);
// As its documents say, and as the client of Claude's maker sends it.
const version = /^(?:bedrock-2023-05-31|202[6-9]-\d\d-\d\d)$/;
// As its documents list them, without those that the maker's own API has alone: files, skills,
// code, searches, scopes of a cache, advanced-tool-use under this name.
const known_betas =
  /^(?:computer-use-2025-(?:01|11)-24|interleaved-thinking-2025-05-14|dev-full-thinking-2025-05-14|fine-grained-tool-streaming-2025-05-14|context-1m-2025-08-07|context-management-2025-06-27|compact-2026-01-12|output-128k-2025-02-19|effort-2025-11-24|tool-search-tool-2025-10-19|tool-examples-2025-10-29|token-efficient-tools-2025-02-19)$/;

export async function serveBedrock(visit: Visit, options: BedrockOptions): Promise<void> {
  const refused = unproved(visit, options);
  if (refused !== undefined) return refuse(visit, 403, refused.type, refused.message);
  const [path = ''] = visit.path.split('?');
  const chat = /^\/openai(\/v1\/(?:chat\/completions|responses))$/.exec(path);
  if (chat !== null) return openaiWire(visit, chat[1] as string);
  const conversed = /^\/model\/([^/]+)\/(converse|converse-stream)$/.exec(path);
  if (conversed !== null) {
    const model = decodeURIComponent(conversed[1] as string);
    return serveConverse(visit, model, conversed[2] !== 'converse');
  }
  const invoked = /^\/model\/([^/]+)\/(invoke|invoke-with-response-stream)$/.exec(path);
  if (invoked === null) return refuse(visit, 404, 'UnknownOperationException', 'No such path.');
  return invoke(visit, decodeURIComponent(invoked[1] as string), invoked[2] !== 'invoke');
}

function unproved({ headers, method, url, bytes }: Visit, options: BedrockOptions) {
  const bearer = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1];
  if (bearer !== undefined && options.bearers.has(bearer)) return undefined;
  const { keys, region } = options;
  const signing = { keys, region, service: 'bedrock', now: options.now() };
  return signatureError({ method, url, headers, body: bytes }, signing);
}

function refuse(visit: Visit, status: number, type: string, message: string): void {
  answer(visit, status, { message }, { 'x-amzn-errortype': `${type}:http://internal.amazon.com/` });
}

function openaiWire(visit: Visit, path: string): Promise<void> | void {
  const { body } = visit;
  const refusal = (message: string) =>
    answer(visit, 400, {
      error: { message, type: 'invalid_request_error', code: null, param: null },
    });
  if (!/^[\w-]+\./.test(String(body.model))) return refusal('The model identifier is invalid.');
  if (typeof body.n === 'number' && body.n > 1) return refusal('n must be 1.');
  return relay(visit, path, { ...body, model: standIn(String(body.model)) });
}

async function invoke(visit: Visit, model: string, is_stream: boolean): Promise<void> {
  const { body } = visit;
  const unknown = Object.keys(body).find((name) => !known.has(name));
  const invalid = (message: string) => refuse(visit, 400, 'ValidationException', message);
  if (unknown !== undefined) return invalid(`${unknown}: Extra inputs are not permitted`);
  if (!version.test(String(body.anthropic_version))) return invalid('invalid anthropic_version');
  const betas = (body.anthropic_beta ?? []) as string[];
  if (!betas.every((beta) => known_betas.test(beta))) return invalid('invalid beta flag');
  if (JSON.stringify(body).includes('"scope"')) return invalid('cache_control.scope: Extra inputs');
  const eager = eagerTool(body);
  if (eager !== undefined) return invalid(eager);
  if (visit.headers['anthropic-beta'] || visit.headers['anthropic-version'])
    return invalid('This belongs into the body.');
  const faults = faultsOf(undefined, lastText(body));
  if (faults.throttled) return refuse(visit, 429, 'ThrottlingException', 'Too many requests.');
  const { anthropic_version: _, anthropic_beta: __, ...rest } = body;
  const asked = { ...rest, model: standIn(model), stream: is_stream };
  if (!is_stream) return relay(visit, '/v1/messages', asked);
  const given = await answerOf(visit, '/v1/messages', asked);
  if (given.statusCode !== 200) {
    await given.body.dump();
    return invalid('The model refuses this.');
  }
  const events = told(eventsIn(await given.body.text()), faults);
  await sendBinary(visit.res, events.map(chunkFrame), faults);
}

type Event = { type: string } & Record<string, unknown>;

function eventsIn(text: string): Event[] {
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => JSON.parse(data) as Event);
}

/** The events as Bedrock tells them: with metrics at their end. */
function told(events: Event[], faults: Faults): Event[] {
  const start = events[0]?.message as { usage?: Record<string, number> } | undefined;
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = start?.usage ?? {};
  const metrics = {
    inputTokenCount: input_tokens,
    outputTokenCount: 1,
    invocationLatency: 1,
    firstByteLatency: 1,
    cacheReadInputTokenCount: cache_read_input_tokens,
    cacheWriteInputTokenCount: cache_creation_input_tokens,
  };
  return events.map((event) => {
    if (event.type === 'message_stop')
      return { ...event, 'amazon-bedrock-invocationMetrics': metrics };
    if (!faults['late-usage']) return event;
    if (event.type === 'message_start')
      return {
        ...event,
        message: { ...(event.message as object), usage: { input_tokens, output_tokens: 1 } },
      };
    if (event.type !== 'message_delta') return event;
    const { output_tokens } = event.usage as Record<string, number>;
    return { ...event, usage: { output_tokens } };
  });
}
