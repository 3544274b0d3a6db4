import { z } from 'zod';

// By these a request, with its key, would reach another host or path than the url names, or be
// read otherwise than it was written.
export const routing_headers =
  /^(host|x-host|forwarded|x-forwarded-.*|x-original-.*|x-rewrite-.*|x-http-method.*|content-.*|transfer-encoding|connection|keep-alive|te|trailer|upgrade|expect|date|proxy-.*|sec-.*|mcp-.*|last-event-id)$/i;

/**
 * The address of a server. Its query goes along with every request; what nobody would be sent is
 * refused.
 */
export const serverUrl = z
  .url({ protocol: /^https?$/ })
  .refine((text) => !hasUser(text), {
    error: 'names a user or a password: credentials are named in api_key_env',
  })
  .refine((text) => !text.includes('#'), { error: 'has a fragment (#...), which is never sent' });

function hasUser(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { username, password } = new URL(text);
  return username !== '' || password !== '';
}

/** A time in whole milliseconds, up to an hour. */
export const milliseconds = z.int().min(1).max(3_600_000);

/** A name without blanks around it: nobody asks for one that has them, and no price has one. */
export const name = z
  .string()
  .min(1)
  .regex(/^(?!\s)(?!.*\s$)/s, 'has blanks around it: leave them out');
