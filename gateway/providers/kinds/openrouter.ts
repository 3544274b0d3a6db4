import { type Kind, keyedKind } from '../kind';

interface UpstreamCost {
  upstream_inference_cost?: unknown;
}

export const openrouter: Kind = keyedKind('openrouter', 'https://openrouter.ai/api/v1', {
  families: ['chat_completions', 'responses', 'embeddings'],
  // Credits are USD (openrouter.ai/docs, usage accounting). With a key of one's own at the vendor
  // `cost` is the fee alone, and what the vendor charges is beside it; without one it says the same
  // again there.
  cost: {
    parts: ({ cost, cost_details, is_byok }) =>
      is_byok === true
        ? [cost, (cost_details as UpstreamCost | null | undefined)?.upstream_inference_cost]
        : [cost],
    unit_places: 0,
  },
  // Models that read no PDF get it by OCR at 2 USD a thousand pages unless another engine is named;
  // this one is free (openrouter.ai/docs/guides/overview/multimodal/pdfs, 2026-09).
  with_files: { plugins: [{ id: 'file-parser', pdf: { engine: 'cloudflare-ai' } }] },
  refuses: ['provider', 'route', 'preset', 'models', 'plugins'],
});
