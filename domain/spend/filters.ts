/** Only calls with all of these. */
export interface Filter {
  team_id?: string | undefined;
  user_id?: string | undefined;
  agent_id?: string | undefined;
  key_id?: string | undefined;
  provider?: string | undefined;
  model?: string | undefined;
  family?: string | undefined;
  tag?: string | undefined;
  session_id?: string | undefined;
}
