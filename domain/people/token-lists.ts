import { type ListRequest, listOf, type Part, type Search } from '../lists';
import type { Page } from '../pages';
import { type Db, owns } from '../sql';
import { type TokenType, wasRevoked } from './keys';
import { type Token, tokenColumns, tokenTable } from './tokens';

/** Which keys; all that are given must fit. */
export interface TokenFilter {
  q?: string | undefined;
  type?: TokenType | undefined;
  status?: Token['status'] | undefined;
  user_id?: string | undefined;
  team_id?: string | undefined;
  agent_id?: string | undefined;
  /** Only the keys that this person made. */
  created_by?: string | undefined;
  /** Only keys that end, and do so before this time. */
  expires_before?: Date | undefined;
  /** Only gateway keys that may call this model. */
  model?: string | undefined;
}

// Each condition is one that an index of migration 0071 answers, or that nearly all rows of the
// others meet.
const conditionsOf = {
  status: ({ status }: TokenFilter) => statuses[status ?? 'active'],
  user_id: () => 't.user_id = :user_id',
  team_id: () => 't.team_id = :team_id',
  agent_id: () => 't.agent_id = :agent_id',
  created_by: () => 't.id in (select keys_held_by_2(:org_id, :created_by))',
  expires_before: () => `coalesce(t.expires_at, 'infinity') < :expires_before`,
};

// What is found by words and marks, as a row is looked at.
const searches = {
  q: 'has_words(array[t.name], :q)',
  type: 't.token_type = :type',
  model: `t.token_type = 'gateway' and (t.allowed_models is null or t.allowed_models && :patterns)`,
};

const found = `select t.id from tokens t where t.purpose = 'key' and search_words(t.org_id, array[t.name], token_marks(t.token_type, t.allowed_models))
  @@ (search_for(:org_id, :q, :types) && search_for(:org_id, null, :models))`;

const statuses: Record<Token['status'], string> = {
  active: 't.revoked_at is null and coalesce(t.expires_at > clock_timestamp(), true)',
  expired: `not ${wasRevoked} and coalesce(t.expires_at, 'infinity') <= now()`,
  revoked: wasRevoked,
};

/** The keys of an organization, or those of the platform: living, expired and revoked ones. */
export function list(
  db: Db,
  org_id: string | null,
  filter: TokenFilter,
  request: ListRequest,
): Promise<Page<Token> | Part<Token>> {
  const keys = "t.purpose = 'key'";
  const of = `${owns('t.org_id', org_id)} and ${keys}`;
  const names = Object.keys(conditionsOf) as (keyof typeof conditionsOf)[];
  const given = names.filter((name) => filter[name] !== undefined);
  const conditions = [of, ...given.map((name) => conditionsOf[name](filter))];
  const { type, model } = filter;
  const patterns = model === undefined ? [] : patternsOf(model);
  return listOf(
    db,
    {
      name: 'tokens',
      select: tokenColumns,
      from: `${tokenTable} where ${conditions.join(' and ')}`,
      bindings: {
        ...filter,
        org_id,
        q: filter.q ?? null,
        types: type === undefined ? [] : [`type ${type}`],
        models: patterns.map((pattern) => `model ${pattern}`),
        patterns,
      },
      search: searchOf(filter, of),
      id: 't.id',
      created_at: 't.created_at',
      orders: {
        created_at: undefined,
        name: { by: 'lower(t.name)', type: 'text' },
        expires_at: { by: `coalesce(t.expires_at, 'infinity')`, type: 'timestamptz' },
      },
    },
    request,
  );
}

function searchOf(filter: TokenFilter, of: string): Search | undefined {
  const names = Object.keys(searches) as (keyof typeof searches)[];
  const plain = names.filter((name) => filter[name] !== undefined).map((name) => searches[name]);
  if (plain.length === 0) return undefined;
  return { found, plain: plain.join(' and '), among: `select t.id from tokens t where ${of}` };
}

/** The entries of a key's list of models that allow a model: its name, and its beginnings. */
function patternsOf(model: string): string[] {
  const characters = [...model];
  const beginnings = [...characters.keys(), characters.length].map(
    (length) => `${characters.slice(0, length).join('')}*`,
  );
  return [model, ...beginnings];
}
