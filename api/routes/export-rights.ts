import { z } from 'zod';
import { AppError } from '../../domain/errors';
import { kind_names, neededFor } from '../../domain/exports/kinds';
import { may } from '../../domain/people/rights';
import { actorOf, type Principal } from '../http/access';
import { id } from '../http/fields';

/** The zone of days and months; UTC if none is named. */
export const zone = id
  .default('UTC')
  .describe(
    "IANA name of the zone whose days it is cut by: GET /v1/spend says the organization's.",
  );

/** What to export: each kind once. */
export const kindsField = z
  .array(z.enum(kind_names))
  .min(1)
  .max(kind_names.length)
  .refine((all) => new Set(all).size === all.length, 'must name each kind once');

/** True if a caller with `org:billing` may read what files of a kind hold. */
export function mayRead(principal: Principal, kind: string): boolean {
  const scope = neededFor(kind);
  return scope === undefined || may(principal, scope);
}

/** Refuses kinds that the caller may not read: asked as an export is made, and at each file. */
export function requireKinds(principal: Principal, kinds: readonly string[]): void {
  const kind = kinds.find((one) => !mayRead(principal, one));
  if (kind === undefined) return;
  throw new AppError(
    'permission_denied',
    `To export ${kind} you need the permission ${neededFor(kind)}.`,
    {
      param: 'kinds',
    },
  );
}

/** Who makes something: the person, or the key that stands for nobody; and the key. */
export function makerOf(principal: Principal) {
  return { created_by: actorOf(principal), created_with: principal.lasting_key_id };
}
