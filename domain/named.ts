/**
 * Ids of what bears a name with the words `:q`, each found by its index of words: living members of
 * the organization `:org_id`, its teams, its agents and its keys. In statements each is
 * `select ... as id`. The organization is one of the words, and no condition beside them: without
 * statistics its other indexes are taken for cheaper, and the words of each row are made anew.
 */
export const named = {
  users: `select n.user_id as id from memberships n where n.archived_at is null
    and search_words(n.org_id, array[n.name, n.email], array['role ' || n.role]) @@ search_for(:org_id, :q, '{}')`,
  teams: `select n.id from teams n
    where search_words(n.org_id, array[n.name], '{}') @@ search_for(:org_id, :q, '{}')`,
  agents: `select n.id from agents n
    where search_words(n.org_id, array[n.name], '{}') @@ search_for(:org_id, :q, '{}')`,
  keys: `select n.id from tokens n
    where search_words(n.org_id, array[n.name], token_marks(n.token_type, n.allowed_models)) @@ search_for(:org_id, :q, '{}')`,
};

/** The same question about the person of a row, whose id is the given column and row is `u`. */
export function isNamedPerson(user_id: string): string {
  return `(has_words(array[u.name, u.email], :q) and exists (select 1 from memberships n
    where n.org_id = :org_id and n.user_id = ${user_id} and n.archived_at is null))`;
}
