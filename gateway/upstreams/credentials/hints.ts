import type { AuthWay } from '../../config/auth';

// What an operator can do where no credential comes, or none is taken.

/** Who is asked by a form of `auth`, and what to do if nobody answers. */
export function silenceOf(way: AuthWay): string {
  if (way.form === 'google' && way.google.credentials_file_env === undefined)
    return "auth: google: {} asks Google's metadata server, which no other machine has. Name a service account there: google: { credentials_file_env }.";
  if (way.form === 'google') return 'Let this machine reach oauth2.googleapis.com.';
  if (way.form === 'entra' && way.entra === 'managed_identity')
    return "auth: entra: managed_identity asks Azure's metadata server, which no other machine has. Use entra: { tenant_id, client_id, client_secret_env } there.";
  if (way.form === 'entra') return 'Let this machine reach login.microsoftonline.com.';
  if (way.form === 'aws' && way.aws.access_key_id_env === undefined)
    return "auth: aws: {} asks AWS's chain, at last the metadata server of an instance, which no other machine has. Name keys there: aws: { access_key_id_env, secret_access_key_env }.";
  return 'Let this machine reach AWS STS.';
}

// AWS of a signature; Google and Entra of what a service account has signed.
const of_clock =
  /signature (?:expired|not yet current)|must be a short-lived token|AADSTS700024\b|\biat and exp values\b/i;

/** What to do about a refused proof, behind the words of a log; empty if nothing is known. */
export function clockHint(message: string): string {
  return of_clock.test(message) ? ': set the clock of this machine' : '';
}
