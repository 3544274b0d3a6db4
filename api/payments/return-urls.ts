import { AppError } from '../../domain/errors';

/** What the providers take, less the name under which the checkout's id is added. */
const SENT_MAX = 5_000 - '&token={CHECKOUT_SESSION_ID}'.length;

/**
 * The address a buyer is sent back to, as the browser will read it. Its origin must be one of the
 * organization's; without user names, control characters and the spellings that browsers and
 * parsers read differently. Throws `invalid_field`.
 */
export function allowedReturn(given: string, origins: readonly string[], param: string): string {
  const refuse = (why: string) => new AppError('invalid_field', `${param} ${why}`, { param });
  if (!/^https?:\/\/[^\\\s\p{Cc}]+$/u.test(given) || !URL.canParse(given))
    throw refuse('must be a whole address such as https://console.example.com/return.');
  const url = new URL(given);
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/.test(given))
    throw refuse('may not hold a user name.');
  if (url.searchParams.has('token'))
    throw refuse('may not carry a token of its own: the provider adds one.');
  // Other characters than those of ASCII are sent as up to twelve.
  if (url.href.length > SENT_MAX)
    throw refuse(
      `has ${url.href.length} characters as it is sent, percent-encoded; the providers take ${SENT_MAX}.`,
    );
  if (origins.includes(url.origin)) return url.href;
  const allowed = origins.length === 0 ? 'none is allowed yet' : `allowed: ${origins.join(', ')}`;
  throw refuse(
    `leads to ${url.origin}, where buyers may not be sent (${allowed}). An admin with org:billing sets return_origins: PUT /v1/payments/settings.`,
  );
}
