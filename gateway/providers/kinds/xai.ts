import { type Kind, keyedKind, without_caching } from '../kind';

export const xai: Kind = keyedKind('xai', 'https://api.x.ai/v1', {
  families: ['chat_completions', 'responses', 'embeddings'],
  drop_anywhere: without_caching,
  // Files that are attached make it search them (docs.x.ai/developers/files, and pricing of tools).
  bills_runs: true,
  // 1 USD = 10^10 ticks (docs.x.ai/developers/cost-tracking).
  cost: { parts: ({ cost_in_usd_ticks }) => [cost_in_usd_ticks], unit_places: 10 },
});
