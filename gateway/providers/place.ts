import type { Place, PlaceName } from './kind';

interface Alphabet {
  pattern: RegExp;
  /** What is said of a text that is none of these. */
  rule: string;
}

// They end in a host name or a path, so no dot, slash or other sign may stand in them.
const name = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i;

/** What each part of a place may be written in. */
export const alphabets: Readonly<Record<PlaceName, Alphabet>> = {
  resource: {
    pattern: name,
    rule: 'must be the name alone, in letters, digits and hyphens: "acme-eu" of https://acme-eu.openai.azure.com',
  },
  region: {
    pattern: /^(?:[a-z]{2}|eusc)(?:-[a-z]{2,12}){1,3}-\d{1,2}$/,
    rule: 'must be a region such as eu-west-1',
  },
  project: {
    pattern: name,
    rule: 'must be the id of a project, in letters, digits and hyphens',
  },
  location: {
    pattern: /^[a-z]{2,30}(?:-[a-z]{2,20}\d{1,2})?$/,
    rule: 'must be a location such as global, eu or europe-west4',
  },
  api_version: {
    pattern: /^\d{4}-\d{2}-\d{2}(?:-preview)?$/,
    rule: 'must be a date such as 2024-10-21, with or without -preview',
  },
  endpoint: { pattern: /^(?:runtime|mantle)$/, rule: 'must be runtime or mantle' },
};

export const place_names = Object.keys(alphabets) as PlaceName[];

/** The place that a target names, and nothing else of it. */
export function placeOf(row: Place): Place {
  const { resource, region, project, location, api_version, endpoint } = row;
  return { resource, region, project, location, api_version, endpoint };
}
