import { createVerify, type KeyObject } from 'node:crypto';
import { serveNative } from './gemini-native';
import { answer, relay, standIn, type Visit } from './relay';
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

/** POST /token: the flow of a service account. */
export async function serveToken(visit: Visit, options: VertexOptions): Promise<void> {
  if (options.is_down) return answer(visit, 503, { error: 'unavailable' });
  const form = new URLSearchParams(visit.bytes.toString());
  const assertion = form.get('assertion') ?? '';
  const [head = '', claims = '', signature = ''] = assertion.split('.');
  const is_right = createVerify('RSA-SHA256')
    .update(`${head}.${claims}`)
    .verify(options.public_key, signature, 'base64url');
  const { iss, scope } = is_right ? parsed(claims) : {};
  if (iss !== options.client_email || !String(scope).includes('cloud-platform'))
    return answer(visit, 400, { error: 'invalid_grant', error_description: 'Invalid JWT.' });
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
const refused_members = new Set(['model', 'service_tier', 'inference_geo', 'speed']);

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
  if (found === null) return refuse(visit, 404, 'NOT_FOUND', 'There is no such path.');
  const unknown = Object.keys(body).find((name) => refused_members.has(name));
  if (unknown !== undefined)
    return refuse(visit, 400, 'INVALID_ARGUMENT', `${unknown}: Extra inputs are not permitted`);
  if (!version.test(String(body.anthropic_version)))
    return refuse(visit, 400, 'INVALID_ARGUMENT', 'anthropic_version is wrong.');
  if ((found[4] === 'streamRawPredict') !== (body.stream === true))
    return refuse(visit, 400, 'INVALID_ARGUMENT', 'The path and "stream" differ.');
  const { anthropic_version: _, ...rest } = body;
  await relay(visit, '/v1/messages', { ...rest, model: standIn(found[3] as string) });
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
