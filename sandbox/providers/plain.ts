import { holds, type PlainKind, plainKind, refusedOf } from './plain-kinds';
import { answer, answerOf, pass, relayForm, standIn, type Visit } from './relay';
import { passWithCost, tellsCosts } from './told-costs';

// Providers that differ from the sandbox's models in their addresses and keys, in how they refuse,
// and in what they say of a call's cost.

const openai_paths =
  /^\/(?:chat\/completions|responses|embeddings|completions|moderations|audio\/speech|audio\/transcriptions)$/;
const anthropic_paths = /^\/v1\/messages(?:\/count_tokens)?$/;

/** `/plain/<kind>` and the kind's own path; `keys` are those that are taken. */
export async function servePlain(visit: Visit, keys: ReadonlySet<string>): Promise<void> {
  const { headers, body } = visit;
  const bearer = /^Bearer (\S+)$/.exec(headers.authorization ?? '')?.[1];
  const key = bearer ?? String(headers['x-api-key'] ?? '');
  const [, name = '', below = ''] = /^\/(\w+)(\/[^?]*)/.exec(visit.path) ?? [];
  const kind = plainKind(name);
  const path = kind && pathOf(kind, below);
  if (kind === undefined || path === undefined)
    return answer(visit, 404, { error: { message: 'There is no such path.' } });
  if (kind.is_open !== true && !keys.has(key))
    return answer(visit, 401, { error: { message: 'The key is not known.', type: 'auth' } });
  const type = headers['content-type'] ?? '';
  if (type.startsWith('multipart/')) return relayForm(visit, path, type);
  const refused =
    kind.refuses?.find((member) => holds(body, member)) ?? refusedOf(body, kind.refuses_of ?? {});
  if (refused !== undefined)
    return answer(visit, 400, kind.refusal(400, `property '${refused}' is unsupported`));
  const given = await answerOf(visit, path, { ...body, model: standIn(String(body.model)) });
  if (given.statusCode >= 400) {
    const said = (await given.body.json()) as { error?: { message?: string } };
    const told = kind.refusal(given.statusCode, said.error?.message ?? 'Refused.');
    return answer(visit, given.statusCode, told);
  }
  return tellsCosts(name) ? passWithCost(visit, name, given) : pass(visit, given);
}

/** The sandbox's own path of what a kind is asked for; undefined for one that it does not have. */
function pathOf({ openai, anthropic }: PlainKind, path: string): string | undefined {
  const behind = (before: string | undefined, paths: RegExp) => {
    if (before === undefined || !path.startsWith(before)) return undefined;
    const rest = path.slice(before.length);
    return paths.test(rest) ? rest : undefined;
  };
  const of_openai = behind(openai, openai_paths);
  return of_openai === undefined ? behind(anthropic, anthropic_paths) : `/v1${of_openai}`;
}
