import { createVerify, type KeyObject } from 'node:crypto';
import { serveNative } from './gemini-native';
import { answer, eagerTool, relay, standIn, type Visit } from './relay';
import { serveVertexVectors } from './vertex-vectors';

/**
 * Vertex: tokens of Google with an end, got for a signed assertion; Claude by rawPredict, whose
 * body has no model; Gemini on OpenAI's wire and on its own, with its vectors.
 */
export interface VertexOptions {
  /** The key that the service account's assertions are checked by. */
  public_key: KeyObject;
  client_email: string;
  project: string;
  /** Seconds that a token lives. */
  lifetime_s: number;
  now: () => number;
  tokens: Map<string, number>;
  /** Set: no token is given. */
  is_down: boolean;
}

const CLOCK_MS = 300_000;
const clock_words =
  'Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim.';

/** POST /token: the flow of a service account. */
export async function serveToken(visit: Visit, options: VertexOptions): Promise<void> {
  if (options.is_down) return answer(visit, 503, { error: 'unavailable' });
  const form = new URLSearchParams(visit.bytes.toString());
  const assertion = form.get('assertion') ?? '';
  const [head = '', claims = '', signature = ''] = assertion.split('.');
  const is_right = createVerify('RSA-SHA256')
    .update(`${head}.${claims}`)
    .verify(options.public_key, signature, 'base64url');
  const { iss, scope, iat } = is_right ? parsed(claims) : {};
  if (iss !== options.client_email || !String(scope).includes('cloud-platform'))
    return answer(visit, 400, { error: 'invalid_grant', error_description: 'Invalid JWT.' });
  if (Math.abs(Number(iat) * 1_000 - options.now()) > CLOCK_MS)
    return answer(visit, 400, { error: 'invalid_grant', error_description: clock_words });
  const token = `ya29.sandbox-${options.tokens.size + 1}`;
  options.tokens.set(token, options.now() + options.lifetime_s * 1_000);
  answer(visit, 200, {
    access_token: token,
    expires_in: options.lifetime_s,
    token_type: 'Bearer',
  });
}

function parsed(claims: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, unknown>;
}

const predicted =
  /^\/v1\/projects\/([\w-]+)\/locations\/([\w-]+)\/publishers\/anthropic\/models\/([^/:]+):(rawPredict|streamRawPredict)$/;
const generated =
  /^\/v1\/projects\/([\w-]+)\/locations\/([\w-]+)\/publishers\/google\/models\/([^/:]+):(generateContent|streamGenerateContent|predict|embedContent)$/;
const chatted =
  /^\/v1\/projects\/([\w-]+)\/locations\/([\w-]+)\/endpoints\/openapi(\/chat\/completions)$/;
// As its documents say, and as the client of Claude's maker sends it.
const version = /^(?:vertex-2023-10-16|202[6-9]-\d\d-\d\d)$/;
// What it takes of a message, and of the header for betas: all else is 400
// (anthropics/claude-code#34802 #21625, poe-platform/poe-code#25, vercel/ai#13986).
const known_members = new Set([
  'anthropic_version',
  'context_management',
  'max_tokens',
  'messages',
  'metadata',
  'output_config',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
]);
const known_betas = new Set([
  'compact-2026-01-12',
  'computer-use-2025-01-24',
  'computer-use-2025-11-24',
  'context-1m-2025-08-07',
  'context-management-2025-06-27',
  'interleaved-thinking-2025-05-14',
  'tool-search-tool-2025-10-19',
]);
const SEARCH = 'web-search-2025-03-05';

export async function serveVertex(visit: Visit, options: VertexOptions): Promise<void> {
  const { body, headers } = visit;
  const token = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1] ?? '';
  if ((options.tokens.get(token) ?? 0) <= options.now())
    return refuse(visit, 401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.');
  const path = decodeURIComponent(visit.path.split('?')[0] ?? '');
  const chat = chatted.exec(path);
  if (chat !== null) {
    if (chat[1] !== options.project) return refuse(visit, 403, 'PERMISSION_DENIED', 'Not yours.');
    if (!/^google\//.test(String(body.model)))
      return refuse(visit, 400, 'INVALID_ARGUMENT', 'The model must be google/….');
    return relay(visit, `/v1${chat[3]}`, { ...body, model: standIn(String(body.model)) });
  }
  const native = generated.exec(path);
  if (native !== null) {
    if (native[1] !== options.project) return refuse(visit, 403, 'PERMISSION_DENIED', 'Not yours.');
    const [, , , model = '', method = ''] = native;
    if (method === 'predict' || method === 'embedContent')
      return serveVertexVectors(visit, { model, method }, refuse);
    return serveGenerated(visit, model, method);
  }
  const found = predicted.exec(path);
  if (found?.[3] === 'count-tokens') return serveCount(visit);
  if (found === null) return refuse(visit, 404, 'NOT_FOUND', 'There is no such path.');
  const wrong = wrongMember(body) ?? wrongBeta(visit);
  if (wrong !== undefined) return refuseMessage(visit, wrong);
  if (!version.test(String(body.anthropic_version)))
    return refuse(visit, 400, 'INVALID_ARGUMENT', 'anthropic_version is wrong.');
  if ((found[4] === 'streamRawPredict') !== (body.stream === true))
    return refuse(visit, 400, 'INVALID_ARGUMENT', 'The path and "stream" differ.');
  const { anthropic_version: _, ...rest } = body;
  await relay(visit, '/v1/messages', { ...rest, model: standIn(found[3] as string) });
}

/**
 * A count is a model of its own, and a member names the one that is counted for; the beta of a
 * search is refused there (anthropics/claude-code#12429).
 */
async function serveCount(visit: Visit): Promise<void> {
  const { anthropic_version: given, model, ...rest } = visit.body;
  const unknown = Object.keys(rest).find((name) => !known_members.has(name));
  if (unknown !== undefined)
    return refuseMessage(visit, `${unknown}: Extra inputs are not permitted`);
  const eager = eagerTool(rest);
  if (eager !== undefined) return refuseMessage(visit, eager);
  if (typeof model !== 'string' || !version.test(String(given)))
    return refuseMessage(visit, 'model: Field required');
  if (String(visit.headers['anthropic-beta'] ?? '').includes(SEARCH))
    return refuseMessage(
      visit,
      `Unexpected value(s) \`${SEARCH}\` for the \`anthropic-beta\` header.`,
    );
  await relay(visit, '/v1/messages/count_tokens', { ...rest, model: standIn(model) });
}

/** Claude's own words, and not those of the server in front of it. */
function refuseMessage(visit: Visit, message: string): void {
  const error = { type: 'invalid_request_error', message };
  answer(visit, 400, { type: 'error', error, request_id: 'req_vrtx_sandbox' });
}

function wrongMember(body: Record<string, unknown>): string | undefined {
  const unknown = Object.keys(body).find((name) => !known_members.has(name));
  if (unknown !== undefined) return `${unknown}: Extra inputs are not permitted`;
  if (/"cache_control":\{[^}]*"scope"/.test(JSON.stringify(body)))
    return 'system.0.cache_control.ephemeral.scope: Extra inputs are not permitted';
  return eagerTool(body);
}

function wrongBeta({ headers, body }: Visit): string | undefined {
  const asked = String(headers['anthropic-beta'] ?? '').split(',');
  const betas = asked.map((beta) => beta.trim()).filter(Boolean);
  const unknown = betas.filter((beta) => beta !== SEARCH && !known_betas.has(beta));
  if (unknown.length > 0) {
    const names = unknown.map((beta) => `\`${beta}\``).join(', ');
    return `Unexpected value(s) ${names} for the \`anthropic-beta\` header. Please consult our documentation at docs.anthropic.com or try again without the header.`;
  }
  const tools = Array.isArray(body.tools) ? (body.tools as { type?: string }[]) : [];
  const searches = tools.findIndex(({ type = '' }) => type.startsWith('web_search'));
  if (searches < 0 || betas.includes(SEARCH)) return undefined;
  return `tools.${searches}: Input tag '${tools[searches]?.type}' found using 'type' does not match any of the expected tags`;
}

const traffic_types = new Map<unknown, string>([
  ['flex', 'ON_DEMAND_FLEX'],
  ['priority', 'ON_DEMAND_PRIORITY'],
]);

/**
 * Gemini on its own wire: the tier is asked for by a header. A body may name one in capitals, which
 * is ignored; in small letters it is refused (googleapis/python-genai#2847).
 */
async function serveGenerated(visit: Visit, model: string, method: string): Promise<void> {
  const { serviceTier } = visit.body;
  if (serviceTier !== undefined && !/^SERVICE_TIER_[A-Z]+$/.test(String(serviceTier)))
    return refuse(
      visit,
      400,
      'INVALID_ARGUMENT',
      `Invalid value at 'service_tier', "${serviceTier}"`,
    );
  const asked = visit.headers['x-vertex-ai-llm-shared-request-type'];
  const traffic = traffic_types.get(asked) ?? 'ON_DEMAND';
  await serveNative(visit, { model, method, traffic });
}

function refuse(visit: Visit, code: number, status: string, message: string): void {
  answer(visit, code, [{ error: { code, message, status, details: [] } }]);
}
