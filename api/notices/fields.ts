import { z } from 'zod';
import { isPlatformAdmin } from '../../domain/people/rights';
import { actingOrg, permission } from '../http/access';
import type { Ctx } from '../http/route';

export const billing = permission('org:billing');

/** The organization that is meant; null: the platform, if its admin names none. */
export async function ownerOf(
  { db, principal }: Pick<Ctx, 'db' | 'principal'>,
  named: string | undefined,
): Promise<string | null> {
  if (isPlatformAdmin(principal) && named === undefined) return null;
  return actingOrg(db, principal, named);
}

/** The address of a webhook, or that of an incoming webhook of Slack or Teams. */
export const url = z
  .url({ protocol: /^https?$/, error: 'must be an address such as https://example.com/hook' })
  .max(2_000);

export const secret = z
  .string()
  .regex(
    /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/,
    'must be whsec_ and 24 to 64 bytes in base64, as the Standard Webhooks write it',
  );
