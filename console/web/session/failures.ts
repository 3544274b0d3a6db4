// Why a sign-in at an identity provider did not work, in the console's own words: the server sends
// a code and the field that it is about, as anybody may make a link to the page.

const failures: Readonly<Record<string, string>> = {
  other_browser: 'This sign-in was begun in another browser, or too long ago. Begin it again.',
  other_provider: 'Another identity provider answered than the one that was asked. Begin again.',
  provider_refused: 'The identity provider did not sign you in.',
  permission_denied: 'Nobody has let this account in. Ask an admin for an invitation.',
  'permission_denied email_verified':
    'Your identity provider has not verified your e-mail address. Verify it there, or ask an admin for an invitation.',
  'permission_denied email':
    'A member has your e-mail address already. Ask an admin to invite that member: the invitation binds your account to them.',
  'permission_denied id_token':
    'Your identity provider sent an invalid e-mail address. Have it corrected there, or ask an admin for an invitation.',
  'permission_denied groups_claim':
    'You are in too many groups. Whoever runs your identity provider lets it send only those that matter here.',
  'permission_denied invitation':
    'This invitation does not fit this sign-in: whoever made it may not invite this member any more, or its organization is another identity provider’s. Ask for a new one, or sign in by the other identity provider.',
  'already_exists invitation':
    'Your account signs in another member of the organization already, or this member has as many sign-ins as there may be. An admin unbinds one of them first.',
  'invalid_field invitation':
    'The people of this identity provider need no invitation. Sign in without it.',
  'invalid_credential invitation':
    'This invitation is unknown, used, taken back or too old. Ask an admin for a new one.',
  'invalid_credential one_time_code':
    'This is a one-time code and no invitation. Enter it below as it is.',
  'invalid_credential code':
    'The identity provider did not confirm this sign-in: it took too long, or was used already. Begin it again.',
  'invalid_credential id_token':
    'What the identity provider says of you is refused. Begin the sign-in again; if that fails too, an operator looks at how the identity provider is set up.',
  'invalid_field code':
    'This identity provider is not set up for browsers: its token_url is missing. Ask an operator.',
  'not_found org_id': 'Your account is no member of the organization that you wanted to go to.',
  not_found: 'This identity provider is no longer used for sign-ins.',
  org_required:
    'You are a member of several organizations. Ask an admin for your sign-in link: /login?org=<organization id>.',
  organization_suspended: 'Your organization is suspended. Ask whoever runs this installation.',
  rate_limit_exceeded: 'Too many sign-ins came from here. Wait a minute.',
  unavailable: 'The API or your identity provider cannot be reached at present. Try again.',
};

const unknown = 'The sign-in did not work. Begin it again, or ask an admin.';

/** The words for a code and its field; those of the code alone if the field has none. */
export function failureWords(code: string, param = ''): string {
  const found = [`${code} ${param}`, code].find((name) => Object.hasOwn(failures, name));
  return found === undefined ? unknown : (failures[found] ?? unknown);
}
