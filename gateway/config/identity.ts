import { z } from 'zod';
import { isLoopback } from '../../domain/texts';

const mode = z.enum(['gateway_key', 'signed_assertion', 'header_soft']);

type Mode = z.infer<typeof mode>;

// What each proof needs; a member that no proof of the file needs has no meaning in it.
const needed: Record<Mode, readonly string[]> = {
  gateway_key: [],
  header_soft: ['org_id'],
  signed_assertion: ['org_id', 'jwks_url', 'issuer', 'audience'],
};
const optional: Record<Mode, readonly string[]> = {
  gateway_key: [],
  header_soft: [],
  signed_assertion: ['subject'],
};

/** How callers prove who they are: the three modes of the specification's Authentication. */
export const identitySettings = z
  .strictObject({
    mode: mode.optional(),
    /** Proofs side by side, in place of the one `mode`; the form of the bearer picks among them. */
    modes: z.array(mode).min(1).max(2).optional(),
    /**
     * The organization that all calls belong to, in the two modes whose callers show no gateway
     * key.
     */
    org_id: z.string().min(1).optional(),
    /** Where the keys of the issuer of signed assertions are, and what its JWTs must say. */
    jwks_url: z
      // Aborted, as what follows reads the address.
      .url({ protocol: /^https?$/, abort: true })
      .refine(
        (text) => text.startsWith('https:') || isLoopback(new URL(text).hostname),
        'must begin with https://: whoever can change its keys can be anybody; http:// only on this machine',
      )
      .optional(),
    issuer: z.string().min(1).optional(),
    audience: z.string().min(1).optional(),
    /** How `sub` is read: as the id of a user, or by what it was bound to for this issuer. */
    subject: z.enum(['user_id', 'bound']).optional(),
  })
  .superRefine((given, check) => {
    const refuse = (name: string, message: string) =>
      check.addIssue({ code: 'custom', path: [name], message });
    const { modes } = given;
    if (modes !== undefined && given.mode !== undefined)
      refuse('modes', 'takes the place of mode: name one of the two');
    if (modes !== undefined && new Set(modes).size < modes.length)
      refuse('modes', 'names a proof twice');
    if (modes !== undefined && modes.length > 1 && modes.includes('header_soft'))
      refuse(
        'modes',
        'may hold header_soft only alone: beside a proof it would be a way around it',
      );
    const proofs = proofsOf(given);
    const words = proofs.length > 1 ? `modes ${proofs.join(', ')}` : `mode ${proofs[0]}`;
    for (const name of ['org_id', 'jwks_url', 'issuer', 'audience', 'subject'] as const) {
      const is_needed = proofs.some((one) => needed[one].includes(name));
      const is_given = given[name] !== undefined;
      if (is_needed && !is_given) refuse(name, `is needed in ${words}`);
      const has_meaning = is_needed || proofs.some((one) => optional[one].includes(name));
      if (is_given && !has_meaning) refuse(name, `has no meaning in ${words}`);
    }
  })
  // A file without either is that of before: its hash stays.
  .transform(({ mode: one, ...given }) =>
    given.modes === undefined ? { mode: one ?? 'gateway_key', ...given } : given,
  );

/** The proofs that are taken, in the order of the file. */
export function proofsOf({
  mode: one,
  modes,
}: {
  mode?: Mode | undefined;
  modes?: readonly Mode[] | undefined;
}): readonly Mode[] {
  return modes ?? [one ?? 'gateway_key'];
}
