import { z } from 'zod';

/** How callers prove who they are: the three modes of the specification's Authentication. */
export const identitySettings = z
  .strictObject({
    mode: z.enum(['gateway_key', 'signed_assertion', 'header_soft']).default('gateway_key'),
    /**
     * The organization that all calls belong to, in the two modes whose callers show no gateway
     * key.
     */
    org_id: z.string().min(1).optional(),
    /** Where the keys of the issuer of signed assertions are, and what its JWTs must say. */
    jwks_url: z.url({ protocol: /^https?$/ }).optional(),
    issuer: z.string().min(1).optional(),
    audience: z.string().min(1).optional(),
  })
  .superRefine((given, check) => {
    const needed = {
      gateway_key: [],
      header_soft: ['org_id'],
      signed_assertion: ['org_id', 'jwks_url', 'issuer', 'audience'],
    } as const;
    for (const name of ['org_id', 'jwks_url', 'issuer', 'audience'] as const) {
      const is_needed = (needed[given.mode] as readonly string[]).includes(name);
      if (is_needed === (given[name] !== undefined)) continue;
      const message = is_needed
        ? `is needed in mode ${given.mode}`
        : `has no meaning in mode ${given.mode}`;
      check.addIssue({ code: 'custom', path: [name], message });
    }
  });
