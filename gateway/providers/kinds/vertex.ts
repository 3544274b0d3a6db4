import { vertex_betas, vertex_search } from '../betas';
import {
  type Asked,
  anthropicWire,
  claude_elsewhere,
  claude_refused,
  type Kind,
  message_families,
  openaiWire,
  type Place,
  versionFor,
  type Wire,
  without_caching,
} from '../kind';
import { withThoughts } from '../thoughts';
import { tierOfTraffic } from '../traffic';
import { nativePath } from './gemini';

const VERSION = 'vertex-2023-10-16';

function baseUrl({ location = '' }: Place): string {
  if (location === 'global') return 'https://aiplatform.googleapis.com/v1';
  if (location === 'us' || location === 'eu')
    return `https://aiplatform.${location}.rep.googleapis.com/v1`;
  return `https://${location}-aiplatform.googleapis.com/v1`;
}

function below({ project, location }: Place): string {
  return `/projects/${project}/locations/${location}`;
}

/** Claude: the model stands in the path. */
function predicted(place: Place): Wire {
  return {
    ...anthropicWire(undefined, { key: 'bearer', families: message_families, passes: [] }),
    headers: {},
    base_url: baseUrl,
    drop: ['model', ...claude_refused],
    ...claude_elsewhere,
    betas: vertex_betas,
    needs_betas: searchesBy,
    lost_in_counts: [vertex_search],
    members: (asked) => ({
      anthropic_version: versionFor(asked, VERSION),
      ...(isCount(asked) ? { model: asked.model } : {}),
    }),
    path: (asked) => {
      const { model, is_stream } = asked;
      if (isCount(asked))
        return `${below(place)}/publishers/anthropic/models/count-tokens:rawPredict`;
      const name = encodeURIComponent(model).replaceAll('%40', '@');
      const method = is_stream ? 'streamRawPredict' : 'rawPredict';
      return `${below(place)}/publishers/anthropic/models/${name}:${method}`;
    },
  };
}

/** A count of tokens is a model of its own there, and the one that is counted for a member. */
function isCount({ path }: Asked): boolean {
  return path.endsWith('/count_tokens');
}

/** Its maker's own API takes this tool without a beta by now. */
function searchesBy({ tools, web_search_options }: Readonly<Record<string, unknown>>) {
  const has_tool = Array.isArray(tools) && tools.some((tool) => /^web_search/.test(tool?.type));
  return has_tool || web_search_options != null ? [vertex_search] : [];
}

/** Gemini on OpenAI's wire. */
function chat(place: Place): Wire {
  return {
    ...openaiWire(undefined, {
      families: ['chat_completions'],
      usage: withThoughts,
      served_tier: tierOfTraffic,
      drop: ['store', 'metadata', 'user', 'safety_identifier', 'prompt_cache_key', 'service_tier'],
      drop_anywhere: without_caching,
      lacks: ['verbosity'],
    }),
    base_url: baseUrl,
    path: ({ path }) => `${below(place)}/endpoints/openapi${path}`,
  };
}

// A tier is asked for by this header alone: what a body says of it is refused, or ignored
// (docs.cloud.google.com/vertex-ai/generative-ai/docs/priority-paygo).
const tierHeader = (tier: string) => ({ 'x-vertex-ai-llm-shared-request-type': tier });

// The models of before take instances, each a text, those since then one content
// (docs.cloud.google.com/vertex-ai/generative-ai/docs/embeddings).
const vectors = (model: string) =>
  /^gemini-embedding-[2-9]/.test(model) ? 'embedContent' : 'predict';

/** Gemini on its own wire. */
function generated(place: Place): Wire {
  return {
    base_url: baseUrl,
    key: 'bearer',
    families: ['chat_completions', 'embeddings'],
    drop: ['serviceTier'],
    tiers: { flex: tierHeader('flex'), priority: tierHeader('priority') },
    vectors,
    path: (asked) => `${below(place)}/publishers/google${nativePath(asked, vectors(asked.model))}`,
  };
}

export const vertex: Kind = {
  name: 'vertex',
  needs: ['project', 'location'],
  auth: ['google'],
  scope: 'https://www.googleapis.com/auth/cloud-platform',
  wires: { anthropic: predicted, openai: chat, gemini: generated },
};
