import {
  type Asked,
  anthropicWire,
  type Kind,
  openaiWire,
  type Place,
  type Wire,
  without_caching,
} from '../kind';

// It reads an index by the identity of the operator's resource, whoever asks, and unpriced.
const refuses = ['data_sources'];
// Base models and fine-tuned ones (learn.microsoft.com/rest/api/azureopenai/models/list); a
// deployment is called as its operator likes.
const lists_deployable = true;

/** Under this host the deployment is the model, in the body. */
const v1: Wire = {
  ...openaiWire(undefined, {
    key: 'api-key',
    families: ['chat_completions', 'responses', 'completions', 'embeddings'],
    passes: ['openai-beta'],
    drop_anywhere: without_caching,
  }),
  refuses,
  lists_deployable,
  base_url: ({ resource }) => `https://${resource}.openai.azure.com/openai/v1`,
};

/** The older form has the deployment in its path, and an obligatory query. */
const dated: Wire = {
  ...v1,
  families: [
    'chat_completions',
    'responses',
    'completions',
    'embeddings',
    'audio_speech',
    'audio_transcriptions',
  ],
  base_url: ({ resource }) => `https://${resource}.openai.azure.com/openai`,
  query: ({ api_version }) => ({ 'api-version': api_version ?? '' }),
  path: deploymentPath,
};

function deploymentPath({ path, model }: Asked): string {
  return path === '/responses' ? path : `/deployments/${encodeURIComponent(model)}${path}`;
}

/** Claude in the same resource. */
const foundry: Wire = {
  ...anthropicWire(undefined, { families: ['messages'], betas: 'all', lists_deployable }),
  base_url: ({ resource }) => `https://${resource}.services.ai.azure.com/anthropic`,
};

export const azure: Kind = {
  name: 'azure',
  needs: ['resource'],
  takes: ['api_version'],
  auth: ['key', 'entra'],
  scope: 'https://cognitiveservices.azure.com/.default',
  wires: {
    openai: ({ api_version }: Place) => (api_version === undefined ? v1 : dated),
    anthropic: ({ api_version }: Place) =>
      api_version === undefined ? foundry : { ...foundry, unspoken_at: 'api_version' },
  },
};
