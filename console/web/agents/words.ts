import type { Answer } from '../api/client';

export type Agent = Answer<'GET /api/organizations/:id/agents/:agent_id'>;
export type Cap = Answer<'GET /api/agents/:id/usage-constraints'>['usage_constraints'][number];

/** How many caps an agent may have, as the API says it. */
export const CAPS_MAX = 100;

/** The routes whose answers change with an agent. */
export const AGENTS = '/api/organizations/:id/agents';
export const CAPS = '/api/agents/:id/usage-constraints';

/** What each kind of cap counts, and how a call beyond it ends. */
export const counts = { cost: 'what calls cost', responses: 'answers' } as const;
export const beyond = { reject: 'is refused', warn: 'passes with a warning' } as const;

/** Which models a cap counts: `every model of openai`, `gpt-4o* of openai`. */
export function modelWords({ provider, model_pattern }: Pick<Cap, 'provider' | 'model_pattern'>) {
  return `${model_pattern === '*' ? 'every model' : model_pattern} of ${provider}`;
}
