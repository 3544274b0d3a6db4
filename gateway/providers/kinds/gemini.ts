import {
  type Asked,
  type Kind,
  keyedKind,
  type VectorMethod,
  type Wire,
  without_caching,
} from '../kind';
import { withThoughts } from '../thoughts';

/** Gemini's own wire below the models of a base URL: the model and the method are its path. */
export function nativePath({ path, model, is_stream }: Asked, vectors: VectorMethod): string {
  const generates = is_stream ? 'streamGenerateContent?alt=sse' : 'generateContent';
  return `/models/${encodeURIComponent(model)}:${path === '/embeddings' ? vectors : generates}`;
}

// Methods by which a model serves what this gateway asks for; others draw, or speak live.
const asked_methods = new Set(['generateContent', 'embedContent']);

interface ListedModel {
  name?: unknown;
  supportedGenerationMethods?: unknown;
}

/** The names in a part of the list (ai.google.dev/api/models, models.list). */
function readList({ models, nextPageToken }: Readonly<Record<string, unknown>>) {
  const all = Array.isArray(models) ? (models as (ListedModel | null)[]) : [];
  const usable = all.filter((one) => {
    const methods = one?.supportedGenerationMethods;
    return !Array.isArray(methods) || methods.some((method) => asked_methods.has(method));
  });
  const names = usable.flatMap((one) => (typeof one?.name === 'string' ? one.name : []));
  return { names, next: typeof nextPageToken === 'string' ? nextPageToken : undefined };
}

const native: Wire = {
  base_url: () => 'https://generativelanguage.googleapis.com/v1beta',
  key: 'x-goog-api-key',
  families: ['chat_completions', 'embeddings'],
  vectors: () => 'batchEmbedContents',
  path: (asked) => nativePath(asked, 'batchEmbedContents'),
  list_prefix: 'models/',
  // It lists fifty if it is not asked for more.
  list: { path: '/models?pageSize=1000', token: 'pageToken', read: readList },
};

/** Its wire of compatibility, which answers 400 to members that it does not know, and its own. */
export const gemini: Kind = keyedKind(
  'gemini',
  'https://generativelanguage.googleapis.com/v1beta/openai',
  {
    families: ['chat_completions', 'embeddings'],
    list_prefix: 'models/',
    usage: withThoughts,
    drop: [
      'store',
      'metadata',
      'user',
      'safety_identifier',
      'prompt_cache_key',
      'prompt_cache_retention',
      'prediction',
      'service_tier',
    ],
    drop_anywhere: without_caching,
    lacks: ['verbosity', 'logit_bias'],
  },
  { wires: { gemini: () => native } },
);
