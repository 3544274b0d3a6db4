import type { Proof } from '../trace';

// Who calls a gateway, as gateway and API tell each other.

/** Asks who a gateway key is: by the key itself, or by its id if another proof names it. */
export interface Verify {
  key?: string | undefined;
  org_id?: string | undefined;
  key_id?: string | undefined;
}

/** Who a gateway key is. Whether it is still valid, only a reserve or a verify can tell. */
export interface KeyOwner {
  key_id: string;
  /** Changes when the key is rotated. */
  secret_id: string;
  /** Null for a key of the platform. */
  org_id: string | null;
  user_id: string | null;
  team_id: string | null;
  agent_id: string | null;
  /** Null is every model. */
  allowed_models: readonly string[] | null;
  expires_at: Date | null;
}

/** Who calls. In header_soft user and team are what the headers say: counted, never paid from. */
export interface Identity
  extends Pick<KeyOwner, 'user_id' | 'team_id' | 'agent_id' | 'allowed_models'> {
  proof: Proof;
  org_id: string;
  key_id: string | null;
  secret_id: string | null;
}
