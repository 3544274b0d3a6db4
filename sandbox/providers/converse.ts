import type { Faults } from '../models/faults';
import { deltas } from '../models/words';
import { sendBinary } from './binary-stream';
import { type Chat, faultsIn, type Message, type Said, saidTo } from './chats';
import { eventFrame } from './frames';
import { answer, type Visit } from './relay';

/**
 * Bedrock's Converse: no member that it does not know, turns that begin with a user's, no text of
 * blanks alone, tools named wherever one was called, as many results as calls.
 *
 * Faults: those of binary streams; `throttled`, `guardrail`; `error status=` before all.
 */
export async function serveConverse(
  visit: Visit,
  model: string,
  is_stream: boolean,
): Promise<void> {
  const problem = problemOf(visit);
  if (problem !== undefined) return refuse(visit, 400, 'ValidationException', problem);
  if (hasUnknownPoint(visit, model)) return refuse(visit, 403, 'AccessDeniedException', uncached);
  const faults = faultsIn(visit);
  if (faults.throttled) return refuse(visit, 429, 'ThrottlingException', 'Too many requests.');
  if (faults.error) {
    const status = Number(faults.status ?? 500);
    const name = status < 500 ? 'ValidationException' : 'InternalServerException';
    return refuse(visit, status, name, 'A fault was asked for.');
  }
  const said = await saidTo(visit, chatOf(visit, model));
  const stopReason = faults.guardrail ? 'guardrail_intervened' : stops[said.finish];
  const told = { usage: usageOf(said, faults), metrics: { latencyMs: 1 }, ...tierOf(visit) };
  if (is_stream)
    return sendBinary(visit.res, eventsOf(said, stopReason, told, faults).map(eventFrame), faults);
  const content = [
    ...(said.text === '' ? [] : [{ text: said.text }]),
    ...said.calls.map(({ id, name, args }) => ({ toolUse: { toolUseId: id, name, input: args } })),
  ];
  answer(visit, 200, { output: { message: { role: 'assistant', content } }, stopReason, ...told });
}

const stops = { stop: 'end_turn', length: 'max_tokens', tool_calls: 'tool_use' } as const;

function refuse(visit: Visit, status: number, type: string, message: string): void {
  answer(visit, status, { message }, { 'x-amzn-errortype': `${type}:http://internal.amazon.com/` });
}

const uncached =
  'You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.';

/** True for a point of a cache that the model does not take. */
function hasUnknownPoint({ body }: Visit, model: string): boolean {
  const is_nova = /\bnova\b/.test(model);
  const asked = is_nova ? body.toolConfig : body;
  const takes_points = /claude/.test(model);
  return !takes_points && JSON.stringify(asked ?? null).includes('"cachePoint":');
}

function tierOf({ body }: Visit): object {
  return body.serviceTier === undefined ? {} : { serviceTier: body.serviceTier };
}

/** `written=` and `hour=` are what went into the cache; all of it stands beside the input. */
function usageOf({ prompt, completion, cached }: Said, faults: Faults): object {
  const written = Number(faults.written ?? 0);
  const hour = Number(faults.hour ?? 0);
  const details = [
    { ttl: '1h', inputTokens: hour },
    { ttl: '5m', inputTokens: written - hour },
  ].filter(({ inputTokens }) => inputTokens > 0);
  return {
    inputTokens: prompt - cached - written,
    outputTokens: completion,
    totalTokens: prompt + completion,
    cacheReadInputTokens: cached,
    cacheWriteInputTokens: written,
    ...(details.length > 0 ? { cacheDetails: details } : {}),
  };
}

function eventsOf(said: Said, stopReason: string, told: object, faults: Faults): object[] {
  const texts = said.text === '' ? [] : deltas(said.text, faults);
  const words = texts.map((text) => ({
    contentBlockDelta: { delta: { text }, contentBlockIndex: 0 },
  }));
  const first = words.length > 0 ? 1 : 0;
  const calls = said.calls.flatMap(({ id, name, args }, at) => {
    const contentBlockIndex = first + at;
    const start = { toolUse: { toolUseId: id, name } };
    const pieces = Object.keys(args).length === 0 ? [] : JSON.stringify(args).match(/.{1,8}/gsu);
    return [
      { contentBlockStart: { start, contentBlockIndex } },
      ...(pieces ?? []).map((input) => ({
        contentBlockDelta: { delta: { toolUse: { input } }, contentBlockIndex },
      })),
      { contentBlockStop: { contentBlockIndex } },
    ];
  });
  return [
    { messageStart: { role: 'assistant' } },
    ...words,
    ...(words.length > 0 ? [{ contentBlockStop: { contentBlockIndex: 0 } }] : []),
    ...calls,
    { messageStop: { stopReason } },
    { metadata: told },
  ];
}

const members = new Set([
  ...['messages', 'system', 'inferenceConfig', 'toolConfig', 'guardrailConfig', 'serviceTier'],
  ...['additionalModelRequestFields', 'promptVariables', 'additionalModelResponseFieldPaths'],
  ...['requestMetadata', 'performanceConfig', 'outputConfig'],
]);
const settings = new Set(['maxTokens', 'temperature', 'topP', 'stopSequences']);
const blocks = new Set([
  ...['text', 'image', 'document', 'toolUse', 'toolResult', 'cachePoint', 'reasoningContent'],
]);

interface Block {
  text?: string;
  document?: { name: string };
  toolUse?: { toolUseId: string; name: string; input: object };
  toolResult?: { toolUseId: string; content: { text?: string; json?: object }[] };
}

interface Turn {
  role: string;
  content: Block[];
}

function problemOf({ body }: Visit): string | undefined {
  const config = (body.inferenceConfig ?? {}) as { temperature?: number; topP?: number };
  const unknown =
    Object.keys(body).find((name) => !members.has(name)) ??
    Object.keys(config).find((name) => !settings.has(name));
  if (unknown !== undefined) return `The field ${unknown} is not recognized.`;
  if ((config.temperature ?? 0) > 1) return 'temperature must be at most 1.';
  const messages = (body.messages ?? []) as Turn[];
  if (messages[0]?.role !== 'user') return 'A conversation must start with a user message.';
  const all = messages.flatMap(({ content }) => content);
  const has_calls = all.some((block) => block.toolUse ?? block.toolResult);
  if (has_calls && body.toolConfig === undefined)
    return 'The toolConfig field must be defined when using toolUse and toolResult content blocks.';
  return messages.map(turnProblem).find((problem) => problem !== undefined);
}

function turnProblem({ role, content }: Turn, at: number, all: Turn[]): string | undefined {
  if (role !== 'user' && role !== 'assistant') return 'The role must be user or assistant.';
  if (all[at - 1]?.role === role) return 'Roles must alternate.';
  if (content.length === 0) return `The content field in message ${at} is empty.`;
  const kinds = content.flatMap((block) => Object.keys(block));
  const unknown = kinds.find((kind) => !blocks.has(kind));
  if (unknown !== undefined) return `The block ${unknown} is not recognized.`;
  if (content.some(({ text }) => text?.trim() === '')) return 'The text field is blank.';
  const has_text = content.some(({ text }) => text !== undefined);
  if (content.some(({ document }) => document !== undefined) && !has_text)
    return 'A document needs a text beside it.';
  const ids = content.flatMap(({ toolUse }) => toolUse?.toolUseId ?? []);
  if (ids.some((id) => !/^[\w-]{1,64}$/.test(id))) return 'toolUseId has another form.';
  const results = (all[at + 1]?.content ?? []).flatMap(({ toolResult }) => toolResult ?? []);
  if (results.some((one) => one.content.length === 0)) return 'A toolResult is empty.';
  const answered = new Set(results.map(({ toolUseId }) => toolUseId));
  if (ids.length !== answered.size || ids.some((id) => !answered.has(id)))
    return 'Expected toolResult blocks for the toolUse blocks of the turn before.';
  return undefined;
}

function chatOf({ body }: Visit, model: string): Chat {
  const config = (body.inferenceConfig ?? {}) as { maxTokens?: number };
  const { tools = [] } = (body.toolConfig ?? {}) as {
    tools?: { toolSpec?: { name: string; inputSchema: { json: object } } }[];
  };
  const declared = tools.flatMap(({ toolSpec }) =>
    toolSpec === undefined
      ? []
      : [
          {
            type: 'function',
            function: { name: toolSpec.name, parameters: toolSpec.inputSchema.json },
          },
        ],
  );
  const system = (body.system ?? []) as Block[];
  return {
    model,
    messages: [
      ...system.flatMap(({ text }): Message[] =>
        text === undefined ? [] : [{ role: 'system', content: text }],
      ),
      ...(body.messages as Turn[]).flatMap(messagesOf),
    ],
    ...(config.maxTokens === undefined ? {} : { max_tokens: config.maxTokens }),
    ...(body.outputConfig === undefined ? {} : { response_format: { type: 'json_object' } }),
    ...(declared.length > 0 ? { tools: declared } : {}),
  };
}

function messagesOf({ role, content }: Turn): Message[] {
  const text = content.map((block) => block.text ?? '').join('');
  const tool_calls = content.flatMap(({ toolUse: use }) =>
    use === undefined
      ? []
      : [
          {
            id: use.toolUseId,
            type: 'function' as const,
            function: { name: use.name, arguments: JSON.stringify(use.input) },
          },
        ],
  );
  if (role === 'assistant')
    return [{ role, content: text, ...(tool_calls.length > 0 ? { tool_calls } : {}) }];
  const results = content.flatMap(({ toolResult: result }): Message[] =>
    result === undefined
      ? []
      : [
          {
            role: 'tool',
            tool_call_id: result.toolUseId,
            content: result.content.map((one) => one.text ?? JSON.stringify(one.json)).join(''),
          },
        ],
  );
  return text === '' ? results : [...results, { role: 'user', content: text }];
}
