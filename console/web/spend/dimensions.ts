import { text } from '../fields/filters';

/** What spend is grouped by, the filter of each, and its words. */
export const dimensions = {
  model: { filter: 'model', one: 'Model', none: 'no model' },
  provider: { filter: 'provider', one: 'Provider', none: 'no provider' },
  team: { filter: 'team_id', one: 'Team', none: 'no team' },
  user: { filter: 'user_id', one: 'Person', none: 'no person' },
  agent: { filter: 'agent_id', one: 'Agent', none: 'no agent' },
  key: { filter: 'key_id', one: 'Key', none: 'no key' },
  family: { filter: 'family', one: 'Kind of call', none: 'no kind' },
  tag: { filter: 'tag', one: 'Tag', none: 'no tag' },
  session: { filter: 'session_id', one: 'Session', none: 'no session' },
} as const;

export type Dimension = keyof typeof dimensions;
export const all = Object.keys(dimensions) as Dimension[];

/** What narrows, as it stands in the address. */
export const narrowing = {
  model: text,
  provider: text,
  team_id: text,
  user_id: text,
  agent_id: text,
  key_id: text,
  family: text,
  tag: text,
  session_id: text,
};
export type Narrowing = { [name in keyof typeof narrowing]?: string | undefined };

/** What a person asks next of one team, one model and so on. */
const next: readonly Dimension[] = ['model', 'user', 'team', 'key', 'agent', 'tag', 'provider'];

/** The dimension to go on with once one is narrowed to a single value. */
export function nextDimension(by: Dimension, filters: Narrowing): Dimension {
  const is_open = (one: Dimension) => one !== by && filters[dimensions[one].filter] === undefined;
  return next.find(is_open) ?? by;
}
