import { answer, relay, relayForm, standIn, type Visit } from './relay';
import { relayWithCost, tellsCosts } from './told-costs';

// Providers that differ from the sandbox's models in their addresses and keys, and in what they say
// of a call's cost.

const families =
  /^\/(\w+)\/.*?((?:\/v1)?\/(?:chat\/completions|responses|messages|messages\/count_tokens|embeddings|completions|moderations|audio\/speech|audio\/transcriptions))(?:\?.*)?$/;

/** `/plain/<kind>/…`: any path that ends in a family's own; `keys` are those that are taken. */
export async function servePlain(visit: Visit, keys: ReadonlySet<string>): Promise<void> {
  const { headers, body } = visit;
  const bearer = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1];
  const key = bearer ?? String(headers['x-api-key'] ?? '');
  const found = families.exec(visit.path);
  if (found === null) return answer(visit, 404, { error: { message: 'There is no such path.' } });
  const is_open = found[1] === 'ollama' || found[1] === 'vllm' || found[1] === 'lmstudio';
  if (!is_open && !keys.has(key))
    return answer(visit, 401, { error: { message: 'The key is not known.', type: 'auth' } });
  const path = `/v1${(found[2] as string).replace(/^\/v1/, '')}`;
  const type = headers['content-type'] ?? '';
  if (type.startsWith('multipart/')) return relayForm(visit, path, type);
  const asked = { ...body, model: standIn(String(body.model)) };
  const kind = found[1] as string;
  if (tellsCosts(kind)) return relayWithCost(visit, kind, { path, body: asked });
  await relay(visit, path, asked);
}
