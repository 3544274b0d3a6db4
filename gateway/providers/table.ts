import type { Kind } from './kind';
import { anthropic } from './kinds/anthropic';
import { azure } from './kinds/azure';
import { bedrock } from './kinds/bedrock';
import { cohere } from './kinds/cohere';
import { compatible } from './kinds/compatible';
import { deepseek } from './kinds/deepseek';
import { fireworks } from './kinds/fireworks';
import { gemini } from './kinds/gemini';
import { groq } from './kinds/groq';
import { lmstudio } from './kinds/lmstudio';
import { mistral } from './kinds/mistral';
import { ollama } from './kinds/ollama';
import { openai } from './kinds/openai';
import { openrouter } from './kinds/openrouter';
import { together } from './kinds/together';
import { vertex } from './kinds/vertex';
import { vllm } from './kinds/vllm';
import { xai } from './kinds/xai';

/** All kinds by their names. One more is a file of its own and a line here. */
export const kinds: Map<string, Kind> = new Map(
  [
    openai,
    azure,
    anthropic,
    bedrock,
    vertex,
    gemini,
    mistral,
    groq,
    deepseek,
    xai,
    together,
    fireworks,
    openrouter,
    cohere,
    vllm,
    ollama,
    lmstudio,
    compatible,
  ].map((kind) => [kind.name, kind]),
);
