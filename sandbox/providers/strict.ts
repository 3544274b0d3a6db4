import { serveList } from './gemini-models';
import { refuse, serveNative } from './gemini-native';
import { serveVectors } from './gemini-vectors';
import { answer, relay, standIn, type Visit } from './relay';

// Providers of OpenAI's wire that refuse what they do not know, each in its own shape.

const common = [
  'model',
  'messages',
  'temperature',
  'top_p',
  'max_tokens',
  'stream',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'response_format',
  'n',
  'presence_penalty',
  'frequency_penalty',
];
const mistral = new Set([...common, 'random_seed', 'safe_prompt', 'prediction', 'prompt_mode']);
// What Mistral takes of a message, by who speaks (docs.mistral.ai/api, chat).
const mistral_messages: Readonly<Record<string, readonly string[]>> = {
  system: ['role', 'content'],
  user: ['role', 'content'],
  assistant: ['role', 'content', 'tool_calls', 'prefix'],
  tool: ['role', 'content', 'tool_call_id', 'name'],
};
const gemini = new Set([
  ...common,
  'max_completion_tokens',
  'reasoning_effort',
  'stream_options',
  'seed',
  'extra_body',
  'input',
  'dimensions',
  'encoding_format',
]);

/** Mistral: 422 with a list of what is wrong, and no `error` member. */
export async function serveMistral(visit: Visit): Promise<void> {
  const { body, headers } = visit;
  if (!/^Bearer \S+$/.test(headers.authorization ?? ''))
    return answer(visit, 401, { detail: 'Unauthorized' });
  const unknown = Object.keys(body).filter((name) => !mistral.has(name));
  const is_empty = Array.isArray(body.tools) && body.tools.length === 0;
  const at_top = [...unknown, ...(is_empty ? ['tools'] : [])].map((name) => [name]);
  const wrong = [...at_top, ...unknownInside(body.messages)];
  if (wrong.length > 0) {
    const detail = wrong.map((place) => ({
      type: 'extra_forbidden',
      loc: ['body', ...place],
      msg: 'Extra inputs are not permitted',
    }));
    return answer(visit, 422, {
      object: 'error',
      message: { detail },
      type: 'invalid_request_error',
    });
  }
  const { random_seed: _, ...rest } = body;
  const options = body.stream === true ? { stream_options: { include_usage: true } } : {};
  await relay(visit, pathOf(visit), { ...rest, ...options, model: standIn(String(body.model)) });
}

/** Where messages have members that Mistral does not know: `messages`, 1, `user`, `name`. */
function unknownInside(messages: unknown): (string | number)[][] {
  if (!Array.isArray(messages)) return [];
  return messages.flatMap((message, n) => {
    const role = String(message?.role);
    const known = Object.hasOwn(mistral_messages, role) ? (mistral_messages[role] ?? []) : [];
    const names = Object.keys(message ?? {}).filter((name) => !known.includes(name));
    return names.map((name) => ['messages', n, role, name]);
  });
}

const generated =
  /^\/v1beta\/models\/([^/:]+):(generateContent|streamGenerateContent|batchEmbedContents)(?:\?|$)/;

/** Gemini on OpenAI's wire, where an error is a list of one; and on its own, by a key's header. */
export async function serveGemini(visit: Visit, keys: ReadonlySet<string>): Promise<void> {
  const [, model = '', method = ''] = generated.exec(visit.path) ?? [];
  if (visit.method === 'GET' && /^\/v1beta\/models(?:\?|$)/.test(visit.path)) {
    if (keys.has(String(visit.headers['x-goog-api-key'] ?? ''))) return serveList(visit);
    return refuse(visit, 403, 'PERMISSION_DENIED', 'Method doesn’t allow unregistered callers.');
  }
  if (method !== '') {
    if (!keys.has(String(visit.headers['x-goog-api-key'] ?? '')))
      return refuse(
        visit,
        400,
        'INVALID_ARGUMENT',
        'API key not valid. Please pass a valid API key.',
      );
    const name = decodeURIComponent(model);
    if (method === 'batchEmbedContents') return serveVectors(visit, name);
    return serveNative(visit, { model: name, method });
  }
  const { body, headers } = visit;
  const refused = (code: number, status: string, message: string) =>
    answer(visit, code, [{ error: { code, message, status } }]);
  if (!/^Bearer \S+$/.test(headers.authorization ?? ''))
    return refused(400, 'INVALID_ARGUMENT', 'Missing or invalid Authorization header.');
  const unknown = Object.keys(body).find((name) => !gemini.has(name));
  if (unknown !== undefined)
    return refused(
      400,
      'INVALID_ARGUMENT',
      `Invalid JSON payload received. Unknown name "${unknown}": Cannot find field.`,
    );
  await relay(visit, pathOf(visit), { ...body, model: standIn(String(body.model)) });
}

function pathOf({ path }: Visit): string {
  return `/v1${path.replace(/^.*?(?=\/(?:chat|embeddings))/, '')}`;
}
