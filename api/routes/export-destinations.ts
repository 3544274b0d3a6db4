import { z } from 'zod';
import * as destinations from '../../domain/exports/destinations';
import { ownerFolder } from '../../domain/exports/manifest';
import { atTarget } from '../../exports/open';
import * as answers from '../answers/exports';
import * as shared from '../answers/shared';
import { actorOf, ownerOf, ownOrg, permission } from '../http/access';
import { inName } from '../http/acting';
import { id, listParts } from '../http/fields';
import { type Ctx, route } from '../http/route';

const isOrigin = (text: string) => URL.canParse(text) && new URL(text).origin === text;
const credential = z.string().regex(/^[\x21-\x7e]{3,200}$/, 'must be as the store shows it');

const made = z.strictObject({
  org_id: id.optional(),
  endpoint: z
    .string()
    .max(300)
    .refine(isOrigin, 'must be an origin such as https://s3.eu-central-1.amazonaws.com')
    .describe('One of the object stores that the operator allows.'),
  region: z
    .string()
    .regex(/^[a-z0-9-]{1,60}$/, 'must be a region such as eu-central-1')
    .describe('Region of the bucket.'),
  bucket: z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, 'must be the name of a bucket'),
  access_key_id: credential.describe('Of a user who may do no more than this bucket needs.'),
  secret_access_key: credential.describe('Sealed, and never shown again.'),
});
const listed = z.strictObject({ org_id: id.optional(), ...listParts() });
const billing = permission('org:billing');

export const exportDestinationRoutes = [
  route({
    method: 'post',
    path: '/v1/export-destinations',
    access: billing,
    input: made,
    handler: make,
    status: 201,
    summary: 'A bucket that exports may be written to; a probe is written to it now.',
    answer: answers.destination,
  }),
  route({
    method: 'get',
    path: '/v1/export-destinations',
    access: billing,
    input: listed,
    handler: list,
    summary: 'The buckets that exports may be written to, newest first.',
    answer: shared.parts({ destinations: answers.destination }),
  }),
  route({
    method: 'delete',
    path: '/v1/export-destinations/:id',
    access: billing,
    input: z.strictObject({ id }),
    handler: ({ db, principal }: Ctx, input) =>
      destinations.archive(db, input.id, ownOrg(principal) ?? undefined),
    is_recorded: true,
    summary: 'Write no new export to this bucket; what is there stays for its time.',
    answer: answers.destination,
  }),
];

async function make(ctx: Ctx, { org_id: named, ...given }: z.infer<typeof made>) {
  const { principal, secrets, s3_origins: origins } = ctx;
  const org_id = await ownerOf(ctx, named);
  const { openStore } = await import('../../exports/s3.ts');
  const store = openStore({ destination: given, origins, probe_folder: ownerFolder(org_id) });
  await atTarget(store, (target) => target.check());
  const created_by = actorOf(principal);
  // Only now: no connection is held while the store is asked.
  return inName(ctx, (trx) => destinations.create(trx, secrets, { ...given, org_id, created_by }));
}

async function list(ctx: Ctx, { org_id: named, ...request }: z.infer<typeof listed>) {
  const { rows, ...rest } = await destinations.list(ctx.db, await ownerOf(ctx, named), request);
  return { destinations: rows, ...rest };
}
