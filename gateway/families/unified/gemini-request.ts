import { type Body, isObject, listOf, stringOf } from '../../wire/values';
import { wrong } from '../input';
import { callId, conversation } from './conversation';
import {
  checkParallel,
  checkTypes,
  choiceOf,
  exactly,
  formatOf,
  type Given,
  stopsOf,
  toolOf,
} from './members';
import { refuseOthers, shown, unavailable } from './words';

/** What this wire says beside what the other ones say. */
const said_too: ReadonlySet<string> = new Set([
  'n',
  'seed',
  'frequency_penalty',
  'presence_penalty',
  'modalities',
]);

// What Gemini documents, and GIF, which some of its models take.
const pictures = new Set([
  ...['image/jpeg', 'image/png', 'image/webp', 'image/heic', 'image/heif'],
  'image/gif',
]);

/**
 * A chat completion's request on Gemini's own wire. What that has no word for is left out if it
 * changes no answer, and refused if it does.
 */
export function toGemini(given: Given, model: string): Body {
  const { body } = given;
  checkTypes(body);
  refuseOthers(body, said_too);
  checkParallel(body);
  const { system, messages } = conversation(body.messages, { pictures });
  const contentOf = contentWriter(body.messages, model);
  const request: Body = { contents: messages.map(contentOf) };
  if (system.length > 0)
    request.systemInstruction = { parts: system.map(({ text }) => ({ text })) };
  Object.assign(request, tools(given));
  const config = generationConfig(given, model);
  if (Object.keys(config).length > 0) request.generationConfig = config;
  const serviceTier = tier(body.service_tier);
  return serviceTier === undefined ? request : { ...request, serviceTier };
}

interface Turn {
  role: string;
  content: Body[];
}

// In the place of a signature that a conversation has lost, or never had.
const UNSIGNED = 'skip_thought_signature_validator';

/** Writes turns; calls of tools go back with the signatures that they came with. */
function contentWriter(messages: unknown, model: string): (turn: Turn) => Body {
  const signatures = signaturesIn(messages);
  const names = new Map<unknown, unknown>();
  const generation = generationOf(model);
  // These refuse a turn whose first call has no signature.
  const wants_one = generation >= 3;
  // The older ones refuse ids; names that say no generation may be theirs.
  const has_ids = generation >= 3 && generation !== Infinity;
  const about = (id: unknown) => ({ ...(has_ids ? { id } : {}), name: names.get(id) });
  return ({ role, content }) => {
    const first = content.find(({ type }) => type === 'tool_use');
    for (const { type, id, name } of content) if (type === 'tool_use') names.set(id, name);
    const parts = inOrder(content, [...names.keys()]).flatMap((block) => {
      if (block.type === 'tool_result') return resultParts(block, about(block.tool_use_id));
      if (block.type !== 'tool_use') return [plainPart(block)];
      const lacking = block === first && wants_one ? UNSIGNED : undefined;
      const { id, input: args } = block;
      const thoughtSignature = signatures.get(id) ?? lacking;
      return [{ functionCall: { ...about(id), args }, thoughtSignature }];
    });
    return { role: role === 'assistant' ? 'model' : 'user', parts };
  };
}

/** By the ids of calls, what Google's own wire of compatibility puts beside them. */
function signaturesIn(messages: unknown): Map<unknown, string> {
  const found = new Map<unknown, string>();
  for (const { tool_calls } of listOf(messages)) {
    for (const { id, extra_content } of listOf(tool_calls)) {
      const { google } = isObject(extra_content) ? extra_content : {};
      const signature = stringOf(isObject(google) ? google.thought_signature : undefined);
      if (signature !== '') found.set(callId(id, 'messages'), signature);
    }
  }
  return found;
}

/** Results in the order of their calls, by which they are known where they have no ids. */
function inOrder(content: Body[], calls: unknown[]): Body[] {
  const results = content.filter(({ type }) => type === 'tool_result');
  const places = new Map(calls.map((id, at) => [id, at]));
  const placeOf = ({ tool_use_id }: Body) => places.get(tool_use_id) ?? -1;
  const sorted = results.toSorted((a, b) => placeOf(a) - placeOf(b));
  return content.map((block) => (block.type === 'tool_result' ? sorted.shift() : block) as Body);
}

function resultParts({ content }: Body, about: { name: unknown }): Body[] {
  if (about.name === undefined)
    throw wrong('messages', 'The result of a tool must stand behind its call in "messages".');
  const blocks = listOf(content);
  const output = blocks.map(({ text }) => stringOf(text)).join('');
  // What is no text stands behind the result.
  const others = blocks.filter(({ type }) => type !== 'text').map(plainPart);
  return [{ functionResponse: { ...about, response: { output } } }, ...others];
}

/** A text, a picture or a file. */
function plainPart({ type, text, source }: Body): Body {
  if (type === 'text') return { text };
  const { type: kind, media_type, data } = source as Body;
  if (kind === 'url') throw unavailable('messages', 'A picture or file at an address');
  const bytes = kind === 'text' ? Buffer.from(stringOf(data)).toString('base64') : data;
  return { inlineData: { mimeType: media_type, data: bytes } };
}

function tools(given: Given): Body {
  const { body } = given;
  const all = listOf(exactly(given, 'tools')).map(toolOf);
  const choice = choiceOf(body.tool_choice);
  if (all.length === 0) return {};
  const functionDeclarations = all.map(({ name, description, schema }) => ({
    name,
    ...(description == null ? {} : { description }),
    parametersJsonSchema: schema,
  }));
  const is_strict = all.some(({ strict }) => strict === true);
  const functionCallingConfig = calling(choice, is_strict);
  return {
    tools: [{ functionDeclarations }],
    ...(functionCallingConfig && { toolConfig: { functionCallingConfig } }),
  };
}

/** Arguments fit their schemas in every mode but that of the model's own choice. */
function calling(choice: ReturnType<typeof choiceOf>, is_strict: boolean): Body | undefined {
  if (choice === 'none') return { mode: 'NONE' };
  if (choice === 'required') return { mode: 'ANY' };
  if (typeof choice === 'object') return { mode: 'ANY', allowedFunctionNames: [choice.name] };
  if (is_strict) return { mode: 'VALIDATED' };
  return choice === undefined ? undefined : { mode: 'AUTO' };
}

function generationConfig(given: Given, model: string): Body {
  const { body } = given;
  const named: Body = {
    maxOutputTokens: body.max_completion_tokens ?? body.max_tokens,
    temperature: body.temperature,
    topP: body.top_p,
    candidateCount: body.n === 1 ? undefined : body.n,
    seed: body.seed,
    frequencyPenalty: body.frequency_penalty,
    presencePenalty: body.presence_penalty,
    stopSequences: body.stop == null ? undefined : stopsOf(body.stop, { takes_blanks: true }),
    responseModalities: modalities(body.modalities),
    thinkingConfig: thinking(body.reasoning_effort, model),
    ...form(exactly(given, 'response_format')),
  };
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value != null));
}

function form(response_format: unknown): Body {
  const format = formatOf(response_format);
  if (format === undefined) return {};
  const schema = format.type === 'json_schema' ? { responseJsonSchema: format.schema } : {};
  return { responseMimeType: 'application/json', ...schema };
}

function modalities(given: unknown): string[] | undefined {
  if (!Array.isArray(given) || given.every((one) => one === 'text')) return undefined;
  if (given.every((one) => one === 'text' || one === 'image'))
    return given.map((one) => String(one).toUpperCase());
  throw unavailable('modalities', 'An answer in another form than text and pictures');
}

const budgets = new Map<unknown, number>([
  ['none', 0],
  ['minimal', 1_024],
  ['low', 1_024],
  ['medium', 8_192],
  ['high', 24_576],
]);

/** The older generation thinks by a number of tokens, the newer ones by a word. */
function thinking(effort: unknown, model: string): Body | undefined {
  if (effort == null) return undefined;
  const thinkingBudget = budgets.get(effort);
  if (thinkingBudget === undefined || (effort === 'none' && generationOf(model) >= 3))
    throw unavailable('reasoning_effort', `The effort "${shown(effort)}"`);
  if (generationOf(model) < 3) return { thinkingBudget };
  return { thinkingLevel: String(effort).toUpperCase() };
}

/** The generation that a model's name says; the newest for names that say none. */
function generationOf(model: string): number {
  const [, number] = /\bgemini-(\d+)/.exec(model) ?? [];
  return number === undefined ? Infinity : Number(number);
}

const tiers = new Map<unknown, string | undefined>([
  ['auto', undefined],
  ['default', 'standard'],
  ['flex', 'flex'],
  ['priority', 'priority'],
]);

function tier(given: unknown): string | undefined {
  if (given == null) return undefined;
  if (!tiers.has(given)) throw unavailable('service_tier', `The service tier "${shown(given)}"`);
  return tiers.get(given);
}
