// What the plain kinds have of their own: where they answer, what they refuse of a body, and in
// which shape they say so. As their documents say, and apart from what the gateway knows of them.

/** How a kind words a refusal. */
type Refusal = (status: number, message: string) => object;

export interface PlainKind {
  /** What stands ahead of a path of OpenAI's wire, and of Anthropic's; absent: it has none. */
  openai?: string;
  anthropic?: string;
  /** Asked without a key. */
  is_open?: true;
  /** Members that it refuses, wherever they stand. */
  refuses?: readonly string[];
  /** Members that it refuses of messages, by their roles. */
  refuses_of?: Readonly<Record<string, readonly string[]>>;
  refusal: Refusal;
}

const type = 'invalid_request_error';
const openai: Refusal = (_, message) => ({ error: { message, type, param: null, code: null } });
const anthropic: Refusal = (_, message) => ({ type: 'error', error: { type, message } });
const cached = ['cache_control'];
const of_others =
  'reasoning_content reasoning_details refusal annotations audio function_call'.split(' ');

const speaker = ['name'];

const known: Record<string, PlainKind> = {
  openai: { openai: '/v1', refuses: cached, refusal: openai },
  anthropic: { anthropic: '', refusal: anthropic },
  mistral: {
    openai: '/v1',
    refuses: [...cached, 'store', 'stream_options'],
    refuses_of: { system: speaker, user: speaker, assistant: [...speaker, ...of_others] },
    refusal: (_, message) => ({ object: 'error', message: { detail: [{ msg: message }] }, type }),
  },
  groq: {
    openai: '/openai/v1',
    refuses: [...cached, 'logit_bias', 'logprobs', 'top_logprobs'],
    refuses_of: {
      ...{ system: speaker, user: speaker, tool: speaker },
      assistant: [...speaker, ...of_others.filter((name) => name !== 'function_call')],
    },
    refusal: (_, message) => ({ error: { message, type } }),
  },
  deepseek: { openai: '/v1', anthropic: '/anthropic', refusal: openai },
  xai: {
    openai: '/v1',
    refusal: (_, error) => ({ code: 'Client specified an invalid argument', error }),
  },
  together: { openai: '/v1', refusal: openai },
  fireworks: {
    openai: '/inference/v1',
    anthropic: '/inference',
    refusal: (_, message) => ({ error: { object: 'error', type, message } }),
  },
  openrouter: {
    openai: '/api/v1',
    refusal: (code, message) => ({ error: { message, code }, user_id: 'user_sandbox' }),
  },
  cohere: {
    openai: '/compatibility/v1',
    refuses: [...cached, 'store', 'metadata', 'max_completion_tokens', 'parallel_tool_calls'],
    refusal: (_, message) => ({ id: 'a-request', message }),
  },
  vllm: {
    ...{ openai: '/v1', anthropic: '', is_open: true },
    refusal: (code, message) => ({
      ...{ object: 'error', message, type: 'BadRequestError', param: null, code },
    }),
  },
  ollama: {
    ...{ openai: '/v1', is_open: true },
    refusal: (_, message) => ({ error: { message, type, param: null, code: null } }),
  },
  lmstudio: {
    ...{ openai: '/v1', anthropic: '', is_open: true },
    refusal: (_, error) => ({ error }),
  },
  own: { openai: '/v1', anthropic: '', refusal: openai },
};

export function plainKind(name: string): PlainKind | undefined {
  return Object.hasOwn(known, name) ? known[name] : undefined;
}

/** True if a member of this name stands in a value, however deep. */
export function holds(value: unknown, name: string): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (!Array.isArray(value) && Object.hasOwn(value, name)) return true;
  return Object.values(value).some((one) => holds(one, name));
}

/** The first member that a message of its role may not have, as `messages.1.refusal`. */
export function refusedOf(
  { messages }: Record<string, unknown>,
  refused: Readonly<Record<string, readonly string[]>>,
): string | undefined {
  if (!Array.isArray(messages)) return undefined;
  for (const [n, message] of messages.entries()) {
    const name = refused[message?.role]?.find((one) => Object.hasOwn(message, one));
    if (name !== undefined) return `messages.${n}.${name}`;
  }
  return undefined;
}
