// Betas that other sellers of Claude know: a request that names another one is refused there whole.
// As AWS lists them (docs.aws.amazon.com/bedrock, parameters of Claude's Messages), and LiteLLM by
// seller (BerriAI/litellm, anthropic_beta_headers_config.json).

/** What a client calls a beta, and what its seller does. */
export type Betas = ReadonlyMap<string, string>;

// Sellers have a part of it alone.
const advanced_tools: readonly [string, string] = [
  'advanced-tool-use-2025-11-20',
  'tool-search-tool-2025-10-19',
];

const everywhere = [
  'compact-2026-01-12',
  'computer-use-2025-01-24',
  'computer-use-2025-11-24',
  'context-1m-2025-08-07',
  'context-management-2025-06-27',
  'dangerous-tool-use-2026-09-03',
  'interleaved-thinking-2025-05-14',
  'thinking-binding-controls-2026-08-01',
  'thinking-display-updates-2026-08-18',
  'tool-search-tool-2025-10-19',
] as const;

/** Bedrock's InvokeModel. */
export const bedrock_betas = betasOf([
  ...everywhere,
  'dev-full-thinking-2025-05-14',
  'effort-2025-11-24',
  'fine-grained-tool-streaming-2025-05-14',
  'mid-conversation-output-config-2026-07-01',
  'mid-conversation-tool-changes-2026-07-01',
  'output-128k-2025-02-19',
  'token-efficient-tools-2025-02-19',
  'tool-examples-2025-10-29',
]);

/** The second host of Bedrock. */
export const mantle_betas = betasOf([
  ...everywhere,
  'claude-code-20250219',
  'effort-2025-11-24',
  'fine-grained-tool-streaming-2025-05-14',
  'output-128k-2025-02-19',
  'per-turn-control-2026-07-01',
  'structured-outputs-2025-11-13',
  'token-efficient-tools-2025-02-19',
  'tool-examples-2025-10-29',
  'web-search-2025-03-05',
]);

/** What Vertex has no searches of the web without. */
export const vertex_search = 'web-search-2025-03-05';

/** Vertex, which refuses what Bedrock takes, `effort` for one (anthropics/claude-code#34802). */
export const vertex_betas = betasOf([
  ...everywhere,
  'compact-2026-09-04',
  'per-turn-control-2026-07-01',
  vertex_search,
]);

function betasOf(names: readonly string[]): Betas {
  return new Map([...names.map((name): [string, string] => [name, name]), advanced_tools]);
}
