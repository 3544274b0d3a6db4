import { bedrock_betas, mantle_betas } from '../betas';
import {
  type Asked,
  anthropicWire,
  claude_elsewhere,
  claude_refused,
  type Kind,
  openaiWire,
  type Place,
  versionFor,
  type Wire,
  without_caching,
} from '../kind';

const VERSION = 'bedrock-2023-05-31';
const domains: Readonly<Record<string, string>> = { cn: 'amazonaws.com.cn', eusc: 'amazonaws.eu' };

/** The host that serves all wires; China and Europe's sovereign cloud are partitions. */
function runtimeOf(region = ''): string {
  const [partition = ''] = region.split('-');
  const domain = domains[partition] ?? 'amazonaws.com';
  return `https://bedrock-runtime.${region}.${domain}`;
}

/** Claude by InvokeModel: the model stands in the path, a stream is made of binary frames. */
function invoked({ region }: Place): Wire {
  return {
    base_url: () => runtimeOf(region),
    key: 'bearer',
    headers: { accept: 'application/json' },
    families: ['messages'],
    drop: ['model', 'stream', ...claude_refused],
    ...claude_elsewhere,
    betas: bedrock_betas,
    has_betas_inside: true,
    members: (asked) => ({
      anthropic_version: versionFor(asked, VERSION),
      anthropic_beta: asked.betas.length === 0 ? undefined : asked.betas,
    }),
    path: invokePath,
    loadUnframer: async () => (await import('../event-stream.ts')).openEventStream,
  };
}

/** An id, a profile or its ARN is one segment of the path. */
function invokePath({ model, is_stream }: Asked): string {
  return `/model/${encodeURIComponent(model)}/invoke${is_stream ? '-with-response-stream' : ''}`;
}

/** Any model, in the words that Bedrock has for all of them; its streams are of such frames too. */
function conversed({ region, endpoint }: Place): Wire {
  return {
    ...(endpoint === 'mantle' ? { unspoken_at: 'endpoint' as const } : {}),
    base_url: () => runtimeOf(region),
    key: 'bearer',
    headers: { accept: 'application/json' },
    families: ['chat_completions'],
    path: ({ model, is_stream }) =>
      `/model/${encodeURIComponent(model)}/converse${is_stream ? '-stream' : ''}`,
    loadUnframer: async () => (await import('../event-stream.ts')).openConverseStream,
  };
}

/** Anthropic's own wire at the second host. */
function mantleMessages({ region }: Place): Wire {
  return {
    ...anthropicWire(undefined, {
      key: 'bearer',
      families: ['messages'],
      drop: claude_refused,
      ...claude_elsewhere,
      betas: mantle_betas,
    }),
    base_url: () => `https://bedrock-mantle.${region}.api.aws/anthropic`,
  };
}

function chat({ region, endpoint }: Place): Wire {
  const url =
    endpoint === 'mantle'
      ? `https://bedrock-mantle.${region}.api.aws/v1`
      : `${runtimeOf(region)}/openai/v1`;
  return openaiWire(url, {
    families: ['chat_completions', 'responses'],
    drop_anywhere: without_caching,
  });
}

export const bedrock: Kind = {
  name: 'bedrock',
  needs: ['region'],
  takes: ['endpoint'],
  auth: ['key', 'aws'],
  aws_service: ({ endpoint }) => (endpoint === 'mantle' ? 'bedrock-mantle' : 'bedrock'),
  wires: {
    anthropic: (place) => (place.endpoint === 'mantle' ? mantleMessages(place) : invoked(place)),
    openai: chat,
    converse: conversed,
  },
};
