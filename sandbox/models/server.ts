import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { listen } from '../../runtime/listen';
import {
  type ChatRequest,
  chatCompletion,
  chatFrames,
  type EmbeddingRequest,
  embeddings,
  inputText,
  lastText,
  modelObject,
  models,
} from './chat';
import {
  type CompletionRequest,
  completion,
  completionFrames,
  type ModerationRequest,
  moderatedText,
  moderation,
  promptText,
} from './completions';
import {
  answeredByFault,
  dataFrames,
  faultsOf,
  refuse,
  refusesKey,
  sendBytes,
  sendFrames,
  sendJson,
} from './faults';
import { answerCount, refuseMessage } from './message-requests';
import { answerMessage } from './messages';
import {
  type History,
  type ResponseRequest,
  respond,
  responseFrames,
  responseObject,
  saidIn,
} from './responses';
import { type SpeechRequest, speech, speechFrames } from './speech';
import { transcribe } from './transcriptions';

const REQUESTS_KEPT = 200;
const BODY_KEPT_BYTES = 65_536;

/** One arrived request, as GET /sandbox/requests shows it. */
interface Arrival {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: unknown;
  body_bytes: number;
  frames_sent: number;
  /** The other side went away before the whole answer was sent. */
  closed_early: boolean;
  finished: boolean;
}

/**
 * A model provider on this machine: the wires of OpenAI and Anthropic with deterministic answers,
 * real token counts, and faults on demand (see faults.ts). GET /sandbox/requests shows the
 * last requests, DELETE forgets them.
 */
export function createModelServer(): Server {
  const arrivals: Arrival[] = [];
  const cache = new Set<string>();
  const history: History = new Map();
  const server = createServer((req, res) => {
    void serve(req, res, { arrivals, cache, history }).catch(() => res.destroy());
  });
  server.keepAliveTimeout = 60_000;
  return server;
}

/** The server's memory. */
interface Memory {
  arrivals: Arrival[];
  /** Digests of the prompts that Anthropic's clients had cached. */
  cache: Set<string>;
  history: History;
}

async function serve(req: IncomingMessage, res: ServerResponse, memory: Memory) {
  const { arrivals, cache, history } = memory;
  const path = (req.url ?? '/').split('?')[0] ?? '/';
  if (path === '/sandbox/requests') return showArrivals(req, res, arrivals);
  const bytes = await read(req);
  const body = parse(bytes);
  const arrival = record(req, res, { path, body, body_bytes: bytes.length }, arrivals);
  const onFrame = () => {
    arrival.frames_sent += 1;
  };
  if (path === '/v1/messages/count_tokens') return answerCount({ req, res, body });
  if (path === '/v1/messages' && refusesKey(res, String(req.headers['x-api-key']), refuseMessage))
    return;
  if (path === '/v1/messages') return answerMessage({ req, res, body, cache, onFrame });
  if (refusesKey(res, req.headers.authorization)) return;
  if (!/^Bearer \S+/.test(req.headers.authorization ?? '')) {
    return refuse(res, 401, 'A bearer key is required.', 'invalid_api_key');
  }
  if (req.method === 'GET') return answerGet(res, path);
  if (path === '/v1/audio/transcriptions') {
    const onForm = (form: object) => {
      arrival.body = form;
    };
    return transcribe({ req, res, bytes, onForm, onFrame });
  }
  if (body === undefined) return refuse(res, 400, 'The body is not JSON.');
  if (path === '/v1/chat/completions') return chat(req, res, body as ChatRequest, onFrame);
  if (path === '/v1/responses') {
    return response({ req, res, body: body as ResponseRequest, history, onFrame });
  }
  if (path === '/v1/completions') {
    return complete(req, res, body as CompletionRequest, onFrame);
  }
  if (path === '/v1/moderations') return moderate(req, res, body as ModerationRequest);
  if (path === '/v1/audio/speech') return speak(req, res, body as SpeechRequest, onFrame);
  if (path === '/v1/embeddings') return embed(req, res, body as EmbeddingRequest);
  refuse(res, 404, `There is no ${path}.`, 'unknown_url');
}

async function chat(
  req: IncomingMessage,
  res: ServerResponse,
  body: ChatRequest,
  onFrame: () => void,
) {
  if (!isKnown(body.model))
    return refuse(res, 404, `There is no model ${body.model}.`, 'model_not_found');
  if (!Array.isArray(body.messages)) return refuse(res, 400, 'messages is required.');
  const faults = faultsOf(header(req), lastText(body.messages));
  if (answeredByFault(res, faults)) return;
  if (!body.stream) return sendJson(res, chatCompletion(body, faults), faults);
  await sendFrames(res, dataFrames(chatFrames(body, faults)), faults, onFrame);
}

async function response(given: {
  req: IncomingMessage;
  res: ServerResponse;
  body: ResponseRequest;
  history: History;
  onFrame: () => void;
}) {
  const { req, res, body, history } = given;
  if (!isKnown(body.model))
    return refuse(res, 404, `There is no model ${body.model}.`, 'model_not_found');
  const earlier = body.previous_response_id;
  if (earlier && !history.has(earlier)) {
    return refuse(res, 400, `There is no response ${earlier}.`, 'previous_response_not_found');
  }
  const faults = faultsOf(header(req), saidIn(body));
  if (answeredByFault(res, faults)) return;
  const answer = respond(body, faults, history);
  if (!body.stream) return sendJson(res, responseObject(body, answer), faults);
  await sendFrames(res, responseFrames(body, answer, faults), faults, given.onFrame);
}

async function complete(
  req: IncomingMessage,
  res: ServerResponse,
  body: CompletionRequest,
  onFrame: () => void,
) {
  if (!isKnown(body.model))
    return refuse(res, 404, `There is no model ${body.model}.`, 'model_not_found');
  const faults = faultsOf(header(req), promptText(body));
  if (answeredByFault(res, faults)) return;
  if (!body.stream) return sendJson(res, completion(body, faults), faults);
  await sendFrames(res, dataFrames(completionFrames(body, faults)), faults, onFrame);
}

async function moderate(req: IncomingMessage, res: ServerResponse, body: ModerationRequest) {
  if (body.input === undefined) return refuse(res, 400, 'input is required.');
  const faults = faultsOf(header(req), moderatedText(body));
  if (answeredByFault(res, faults)) return;
  await sendJson(res, moderation(body), faults);
}

async function speak(
  req: IncomingMessage,
  res: ServerResponse,
  body: SpeechRequest,
  onFrame: () => void,
) {
  if (!isKnown(body.model))
    return refuse(res, 404, `There is no model ${body.model}.`, 'model_not_found');
  if (!body.input || !body.voice) return refuse(res, 400, 'input and voice are required.');
  const faults = faultsOf(header(req), body.input);
  if (answeredByFault(res, faults)) return;
  const { bytes, content_type } = speech(body);
  if (body.stream_format !== 'sse') return sendBytes(res, bytes, faults, content_type);
  await sendFrames(res, dataFrames(speechFrames(body, faults)), faults, onFrame);
}

async function embed(req: IncomingMessage, res: ServerResponse, body: EmbeddingRequest) {
  if (!isKnown(body.model))
    return refuse(res, 404, `There is no model ${body.model}.`, 'model_not_found');
  if (body.input === undefined) return refuse(res, 400, 'input is required.');
  const faults = faultsOf(header(req), inputText(body.input));
  if (answeredByFault(res, faults)) return;
  await sendJson(res, embeddings(body, faults), faults);
}

function answerGet(res: ServerResponse, path: string) {
  if (path === '/v1/models')
    return sendJson(res, { object: 'list', data: models.map(modelObject) }, {});
  const id = decodeURIComponent(path.replace('/v1/models/', ''));
  if (isKnown(id)) return sendJson(res, modelObject(id), {});
  refuse(res, 404, `There is no model ${id}.`, 'model_not_found');
}

function isKnown(model: string): boolean {
  return (models as readonly string[]).includes(model);
}

function header(req: IncomingMessage): string | undefined {
  return req.headers['x-sandbox-fault'] as string | undefined;
}

function record(
  req: IncomingMessage,
  res: ServerResponse,
  seen: Pick<Arrival, 'path' | 'body' | 'body_bytes'>,
  arrivals: Arrival[],
): Arrival {
  const arrival: Arrival = {
    ...seen,
    method: req.method ?? '',
    headers: req.headers,
    body: seen.body_bytes > BODY_KEPT_BYTES ? null : seen.body,
    frames_sent: 0,
    closed_early: false,
    finished: false,
  };
  res.once('close', () => {
    arrival.finished = res.writableFinished;
    arrival.closed_early = !res.writableFinished;
  });
  arrivals.push(arrival);
  if (arrivals.length > REQUESTS_KEPT) arrivals.shift();
  return arrival;
}

function showArrivals(req: IncomingMessage, res: ServerResponse, arrivals: Arrival[]) {
  if (req.method === 'DELETE') arrivals.length = 0;
  return sendJson(res, { requests: arrivals }, {});
}

async function read(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString()) as unknown;
  } catch {
    return undefined;
  }
}

/** Run as a program. */
export async function main(): Promise<void> {
  const given = Number(process.env.SANDBOX_MODELS_PORT ?? 8090);
  // It shows the requests that it got without a credential, so that only this machine may ask.
  const port = await listen(createModelServer(), given, {
    host: '127.0.0.1',
    name: 'SANDBOX_MODELS',
  });
  process.stdout.write(`sandbox model provider on http://127.0.0.1:${port}/v1\n`);
}
