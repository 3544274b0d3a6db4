import type { Seeded } from './seed';

/** The facts of a running copy that a script needs: the content of demo.json. */
export interface Demo extends Omit<Seeded, 'wallet_id' | 'models'> {
  /** A chat model that the gateway serves, then an embedding model if it serves one. */
  models: string[];
  api_url: string;
  gateway_url: string;
  api_urls: string[];
  gateway_urls: string[];
  console_url: string;
  /** Signs the owner of the demo in, once. Looking at it spends nothing. */
  console_sign_in_url: string;
  pids: {
    apis: number[];
    gateways: number[];
    console: number | null;
    /** The worker programs, which run in one process. */
    worker_lifecycle: number | null;
    worker_export: number | null;
    worker_config: number | null;
    /** Null if somebody else's server is used. */
    temporal: number | null;
    postgres: number | null;
  };
  temporal_address: string;
  temporal_ui_url: string | null;
  database_url: string;
  sandbox: {
    models_url: string;
    mcp_url: string;
    payment_provider_a_url: string;
    payment_provider_b_url: string;
    /** The page that tops up by a click, and where buyers come back to. */
    shop_url: string;
    identity_url: string;
    /** Receivers of notices: /hooks/<name>, /slack/<name>, /teams/<name>, and a page of them. */
    notices_url: string;
  };
  /** The identity provider, our client there, and who can sign in by it. */
  identity: {
    issuer: string;
    client_id: string;
    /** A port may be added. */
    redirect_uris: string[];
    people: { login: string; name: string; email: string; what: string }[];
  };
  return_url: string;
  cancel_url: string;
}

/** The facts that are printed and not in demo.json. */
export interface Printed {
  wallet_id: string;
  /** The model that the calls name has a price. */
  is_priced: boolean;
  log_folder: string;
  /** The file in which the printed commands keep the answer of create-checkout. */
  checkout_file: string;
}
