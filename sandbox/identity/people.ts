/** A person whom the sandbox's identity provider knows; signing in takes no password. */
export interface DemoPerson {
  /** Their `sub`, and the login_hint that signs them in without a page. */
  login: string;
  name: string;
  email: string;
  email_verified: boolean;
  groups: readonly string[];
  what: string;
}

/** The domain whose people become members of the demo organization when they first sign in. */
export const demo_domain = 'demo.example';

/** Groups that the demo organization gives something for. */
export const groups = {
  research: 'research',
  leads: 'research-leads',
  finance: 'finance',
} as const;

export const people: readonly DemoPerson[] = [
  {
    login: 'nina',
    name: 'Nina New',
    email: `nina@${demo_domain}`,
    email_verified: true,
    groups: [groups.research],
    what: 'new here; lands in the team Research',
  },
  {
    login: 'lena',
    name: 'Lena Lead',
    email: `lena@${demo_domain}`,
    email_verified: true,
    groups: [groups.research, groups.leads],
    what: 'admin of the team Research',
  },
  {
    login: 'fay',
    name: 'Fay Finance',
    email: `fay@${demo_domain}`,
    email_verified: true,
    groups: [groups.finance],
    what: 'billing admin',
  },
  {
    login: 'uma',
    name: 'Uma Unverified',
    email: `uma@${demo_domain}`,
    email_verified: false,
    groups: [],
    what: 'refused: her address is not verified',
  },
  {
    login: 'olaf',
    name: 'Olaf Outsider',
    email: 'olaf@elsewhere.example',
    email_verified: true,
    groups: [groups.research],
    what: 'refused: of another domain',
  },
];

/** What the product is at the identity provider. */
export const client_id = 'svc-console';
/** Its redirect URIs; a port may be added to either. */
export const redirect_uris = ['http://127.0.0.1/callback', 'http://localhost/callback'];
/** `aud` of the access tokens, which the gateway takes. */
export const gateway_audience = 'svc-gateway';
