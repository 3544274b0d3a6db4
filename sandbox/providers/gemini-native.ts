import { dataFrames, type Faults, sendFrames } from '../models/faults';
import { deltas } from '../models/words';
import { type Chat, faultsIn, type Message, type Said, saidTo } from './chats';
import { answer, type Visit } from './relay';

/**
 * Gemini's own wire: no member that it does not know, turns of `user` and `model`, as many results
 * as calls behind them, calls of the newer generation signed as they came, and no ids of calls for
 * the older one. `traffic` is what Vertex says with the usage of the tier that serves; without it
 * the body asks for a tier, and a header says which one serves.
 *
 * Faults: those of every stream; `error status=`, `blocked` (the prompt), `safety` (the answer),
 * `beside` (tokens that no count names), `within` (thoughts within the candidates),
 * `empty` (usage and no candidates), `deep` (a call whose arguments have 50,000 levels).
 */
export async function serveNative(
  visit: Visit,
  { model, method, traffic }: { model: string; method: string; traffic?: string },
): Promise<void> {
  const problem = problemOf(visit, model);
  if (problem !== undefined) return refuse(visit, 400, 'INVALID_ARGUMENT', problem);
  const is_stream = method === 'streamGenerateContent';
  if (is_stream && !/[?&]alt=sse\b/.test(visit.path))
    return refuse(visit, 400, 'INVALID_ARGUMENT', 'This sandbox streams by alt=sse alone.');
  const faults = faultsIn(visit);
  if (faults.error) {
    const status = Number(faults.status ?? 500);
    const name =
      status === 429 ? 'RESOURCE_EXHAUSTED' : status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL';
    return refuse(visit, status, name, 'A fault was asked for.');
  }
  if (faults.deep) {
    visit.res.writeHead(200, { 'content-type': 'application/json' }).end(deep);
    return;
  }
  const asked = chatOf(visit, model);
  const said = await saidTo(visit, asked);
  const chunks = chunksOf(said, model, faults);
  // A stream says it with its last event alone.
  const last = chunks.at(-1) as Chunk;
  if (traffic !== undefined) last.usageMetadata = { ...last.usageMetadata, trafficType: traffic };
  const tier = traffic === undefined ? tierOf(visit) : {};
  if (!is_stream) return answer(visit, 200, merged(chunks), tier);
  for (const [name, value] of Object.entries(tier)) visit.res.setHeader(name, value);
  const { frames } = dataFrames(chunks.map((chunk) => JSON.stringify(chunk)));
  const error = {
    error: { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' },
  };
  const broken = `data: ${JSON.stringify(error)}\n\n`;
  await sendFrames(visit.res, { frames, error: broken }, faults, () => undefined);
}

export function refuse(visit: Visit, code: number, status: string, message: string): void {
  answer(visit, code, { error: { code, message, status, details: [] } });
}

function tierOf({ body }: Visit): Record<string, string> {
  const { serviceTier } = body;
  return typeof serviceTier === 'string' ? { 'x-gemini-service-tier': serviceTier } : {};
}

const members = new Set([
  ...['contents', 'systemInstruction', 'tools', 'toolConfig', 'generationConfig'],
  ...['safetySettings', 'cachedContent', 'labels', 'serviceTier', 'store'],
]);
const settings = new Set([
  ...['temperature', 'topP', 'topK', 'candidateCount', 'maxOutputTokens', 'stopSequences'],
  ...['responseLogprobs', 'logprobs', 'presencePenalty', 'frequencyPenalty', 'seed'],
  ...['responseMimeType', 'responseSchema', 'responseJsonSchema', 'responseModalities'],
  ...['thinkingConfig', 'speechConfig', 'mediaResolution', 'imageConfig'],
]);

interface Part {
  text?: string;
  inlineData?: { mimeType?: string; data?: string };
  functionCall?: { id?: string; name?: string; args?: object };
  functionResponse?: { id?: string; name?: string; response?: object };
  thoughtSignature?: string;
}

interface Content {
  role?: string;
  parts?: Part[];
}

function problemOf({ body }: Visit, model: string): string | undefined {
  const config = (body.generationConfig ?? {}) as object;
  const unknown =
    Object.keys(body).find((name) => !members.has(name)) ??
    Object.keys(config).find((name) => !settings.has(name));
  if (unknown !== undefined)
    return `Invalid JSON payload received. Unknown name "${unknown}": Cannot find field.`;
  const contents = (body.contents ?? []) as Content[];
  if (contents.length === 0) return 'contents is not specified';
  for (const [at, { role, parts = [] }] of contents.entries()) {
    if (role !== 'user' && role !== 'model') return 'Please use a valid role: user, model.';
    if (parts.length === 0) return `contents[${at}].parts must not be empty.`;
    const named = parts.flatMap((part) => part.functionCall ?? part.functionResponse ?? []);
    if (!/gemini-[3-9]/.test(model) && named.some(({ id }) => id !== undefined))
      return `Invalid JSON payload received. Unknown name "id" at 'contents[${at}].parts': Cannot find field.`;
    const calls = parts.filter(({ functionCall }) => functionCall !== undefined);
    const first = calls[0];
    if (first !== undefined && /gemini-[3-9]/.test(model) && !isSigned(first))
      return `Function call is missing a thought_signature in functionCall parts, position ${at}.`;
    const results = (contents[at + 1]?.parts ?? []).filter((part) => part.functionResponse);
    if (calls.length !== results.length)
      return 'Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.';
    if (results.some((part) => !part.functionResponse?.name))
      return 'GenerateContentRequest.contents.parts.function_response.name: Name cannot be empty.';
  }
  return undefined;
}

/** Signatures are those of this sandbox, or the one that its documents give for lost ones. */
function isSigned({ thoughtSignature = '' }: Part): boolean {
  return thoughtSignature === 'skip_thought_signature_validator' || isOurs(thoughtSignature);
}

const isOurs = (signature: string) => signature.startsWith(signature_head);
const signature_head = Buffer.from('the thoughts of the sandbox').toString('base64');

interface Declared {
  functionDeclarations?: { name: string; parametersJsonSchema?: object; parameters?: object }[];
}

function chatOf({ body }: Visit, model: string): Chat {
  const config = (body.generationConfig ?? {}) as Record<string, unknown>;
  const { functionCallingConfig } = (body.toolConfig ?? {}) as {
    functionCallingConfig?: { mode?: string };
  };
  const declared = ((body.tools ?? []) as Declared[]).flatMap(
    (one) => one.functionDeclarations ?? [],
  );
  const tools = declared.map(({ name, parametersJsonSchema, parameters }) => ({
    type: 'function',
    function: { name, parameters: parametersJsonSchema ?? parameters },
  }));
  const system = (body.systemInstruction as Content | undefined)?.parts ?? [];
  return {
    model,
    messages: [
      ...system.map(({ text = '' }): Message => ({ role: 'system', content: text })),
      ...(body.contents as Content[]).flatMap(messagesOf),
    ],
    ...(config.maxOutputTokens === undefined ? {} : { max_tokens: config.maxOutputTokens }),
    ...(config.responseMimeType === 'application/json'
      ? { response_format: { type: 'json_object' } }
      : {}),
    ...(tools.length > 0 && functionCallingConfig?.mode !== 'NONE' ? { tools } : {}),
  };
}

function messagesOf({ role, parts = [] }: Content): Message[] {
  const results = parts.flatMap(({ functionResponse: result }): Message[] =>
    result === undefined
      ? []
      : [{ role: 'tool', tool_call_id: result.id ?? '', content: JSON.stringify(result.response) }],
  );
  const content = parts.map(({ text }) => text ?? '').join('');
  const tool_calls = parts.flatMap(({ functionCall: call }) =>
    call === undefined
      ? []
      : [
          {
            id: call.id ?? 'call',
            type: 'function' as const,
            function: { name: call.name ?? '', arguments: JSON.stringify(call.args ?? {}) },
          },
        ],
  );
  if (role === 'model')
    return [{ role: 'assistant', content, ...(tool_calls.length > 0 ? { tool_calls } : {}) }];
  return content === '' ? results : [...results, { role: 'user', content }];
}

interface Chunk {
  candidates?: { content?: Content; finishReason?: string; index: number }[];
  promptFeedback?: object;
  usageMetadata: object;
  modelVersion: string;
  responseId: string;
}

// No program writes such an answer by a function that calls itself.
const LEVELS = 50_000;
const args = `${'{"a":'.repeat(LEVELS)}1${'}'.repeat(LEVELS)}`;
const deep = `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":${args}}}]},"finishReason":"STOP"}]}`;

const finish = { stop: 'STOP', length: 'MAX_TOKENS', tool_calls: 'STOP' } as const;

/** The answer in pieces; the counts in each of them are totals so far. */
function chunksOf(said: Said, model: string, faults: Faults): Chunk[] {
  const head = { modelVersion: model, responseId: 'r-sandbox' };
  const input = { promptTokenCount: said.prompt, totalTokenCount: said.prompt };
  if (faults.blocked) {
    const promptFeedback = { blockReason: 'PROHIBITED_CONTENT' };
    return [{ promptFeedback, usageMetadata: input, ...head }];
  }
  const is_new = /gemini-[3-9]/.test(model);
  const calls = said.calls.map(
    ({ id, name, args }, at): Part => ({
      functionCall: { ...(is_new ? { id } : {}), name, args },
      ...(is_new && at === 0 ? { thoughtSignature: signature_head } : {}),
    }),
  );
  if (faults.empty) return [{ usageMetadata: input, ...head }];
  const parts: Part[] =
    calls.length > 0 ? calls : deltas(said.text, faults).map((text) => ({ text }));
  const reason = faults.safety ? 'SAFETY' : finish[said.finish];
  return parts.map((part, at) => {
    const is_last = at === parts.length - 1;
    const content = { role: 'model', parts: [part] };
    const candidate = { content, index: 0, ...(is_last ? { finishReason: reason } : {}) };
    const usageMetadata = is_last ? usageOf(said, faults) : { ...input, candidatesTokenCount: at };
    return { candidates: [candidate], usageMetadata, ...head };
  });
}

function usageOf(said: Said, faults: Faults): object {
  const { prompt, completion, cached, reasoning } = said;
  const words = faults.within ? completion : completion - reasoning;
  return {
    promptTokenCount: prompt,
    promptTokensDetails: [{ modality: 'TEXT', tokenCount: prompt }],
    ...(cached > 0 ? { cachedContentTokenCount: cached } : {}),
    candidatesTokenCount: words,
    ...(reasoning > 0 && !faults.beside ? { thoughtsTokenCount: reasoning } : {}),
    totalTokenCount: prompt + completion,
  };
}

/** The pieces as one answer. */
function merged(chunks: Chunk[]): object {
  const last = chunks.at(-1) as Chunk;
  const all = chunks.flatMap(({ candidates = [] }) => candidates);
  const end = all.at(-1);
  if (end === undefined) return last;
  const parts = all.flatMap(({ content }) => content?.parts ?? []);
  const text = parts.map((part) => part.text ?? '').join('');
  const whole = parts.some((part) => part.functionCall) ? parts : [{ text }];
  return { ...last, candidates: [{ ...end, content: { role: 'model', parts: whole } }] };
}
