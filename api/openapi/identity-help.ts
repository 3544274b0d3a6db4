/** The meaning of the fields about identity providers and signing in. */
export const identityHelp: Record<string, string> = {
  id_token: 'The id token of the identity provider, issued a moment ago.',
  code_verifier: 'The PKCE verifier whose challenge began the sign-in.',
  redirect_uri: 'Where the identity provider sent the browser back to, as at the start.',
  nonce: 'The nonce that began the sign-in; the id token must hold it.',
  invitation: 'A code of POST /v1/organizations/{id}/members/{user_id}/invitations.',
  issuer_id: 'Id of the identity provider: GET /v1/issuers.',
  identity_id: 'Id of what is bound: GET /v1/organizations/{id}/members/{user_id}/identities.',
  client_id: 'Our client at the identity provider: the aud of its id tokens.',
  client_secret: 'The secret of that client; null takes it away, absent leaves it.',
  jwks_url: "Where the identity provider's public keys are.",
  authorization_url: 'Where a browser begins to sign in.',
  token_url: 'Where a code is exchanged for an id token; without it only id tokens are taken.',
  email_domains:
    'People with a verified e-mail address of these domains become members when they first sign in.',
  groups_claim: "The claim of the id token that names a person's groups.",
  group_grants: 'What each group gives. Applied anew at each sign-in; never owner.',
  group: 'The name of the group, as the identity provider says it.',
  team_role: "The role in the team; null: 'member'.",
};

/** Bodies that a person can send from the page. */
export const identityBodies: Record<string, object> = {
  'post /v1/sessions': { access_key: 'svc_ak_...' },
  'post /v1/admin/issuers': {
    name: 'Acme',
    issuer: 'https://id.example.com',
    client_id: 'svc-console',
    jwks_url: 'https://id.example.com/jwks',
    authorization_url: 'https://id.example.com/auth',
    token_url: 'https://id.example.com/token',
    groups_claim: 'groups',
  },
  'put /v1/admin/issuers/:id': { name: 'Acme' },
  'post /v1/gateway/people/verify': {
    org_id: 'org_01a220a951b44c42b8195c6a01dad198',
    issuer: 'https://id.example.com',
    subject: '248289761001',
  },
};
