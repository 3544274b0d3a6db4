/** Whose sessions a caller reaches: a person's own; a key that stands for nobody, those it made. */
export interface Buyer {
  org_id: string;
  user_id: string | null;
  created_by: string;
}

/** The condition on a session `s` that it is the buyer's. */
export const isOwn = `s.org_id = :org_id and case when :user_id::text is null then s.user_id is null and s.created_by = :created_by
  else s.user_id = :user_id end`;
