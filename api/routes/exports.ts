import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { AppError } from '../../domain/errors';
import * as destinations from '../../domain/exports/destinations';
import * as exports from '../../domain/exports/exports';
import * as making from '../../domain/exports/making';
import { fileName, folderOf } from '../../domain/exports/manifest';
import * as settling from '../../domain/exports/settling';
import { isPlatformAdmin } from '../../domain/people/rights';
import { atTarget } from '../../exports/open';
import * as answers from '../answers/exports';
import * as shared from '../answers/shared';
import {
  actingOrg,
  ownerOf,
  ownOrg,
  type Principal,
  permission,
  platformAdmin,
} from '../http/access';
import { id, listParts, moment } from '../http/fields';
import { askedOf, describeFile } from '../http/files';
import { isRepeated, once } from '../http/idempotency';
import { type Ctx, route } from '../http/route';
import { kindsField, makerOf, mayRead, requireKinds, zone } from './export-rights';

const status = z.enum(exports.export_statuses).optional();

const wanted = {
  kinds: kindsField,
  from: moment.describe('Its first moment, or its first day in time_zone.'),
  to: moment.describe('The first moment, or day, that is no longer in it; not in the future.'),
  time_zone: zone,
  format: z.enum(exports.formats).default('jsonl'),
  destination_id: id
    .optional()
    .describe('The bucket to write to; absent: the folder of this installation.'),
};
const wantedOfOrg = z.strictObject({ org_id: id.optional(), ...wanted });
const wantedOfAll = z.strictObject(wanted);
const listed = z.strictObject({ org_id: id.optional(), status, ...listParts() });
const named = z.strictObject({ id });
const namedFile = z.strictObject({ id, n: z.coerce.number<number>().int().min(0).max(100_000) });

const billing = permission('org:billing');

export const exportRoutes = [
  route({
    method: 'post',
    path: '/v1/exports',
    access: billing,
    input: wantedOfOrg,
    handler: make,
    is_idempotent: true,
    status: 201,
    summary:
      'Have a period written into files: ledger, requests, events, payments, tickets, a closing statement, the audit log. Its bounds are fixed now.',
    answer: answers.exported,
  }),
  route({
    method: 'get',
    path: '/v1/exports',
    access: billing,
    input: listed,
    handler: list,
    summary: "The organization's exports, newest first.",
    answer: shared.parts({ exports: answers.exported }),
  }),
  route({
    method: 'post',
    path: '/v1/admin/exports',
    access: platformAdmin,
    input: wantedOfAll,
    handler: (ctx: Ctx, given) => makeFor(ctx, null, given),
    is_idempotent: true,
    status: 201,
    summary: 'The same of all organizations.',
    answer: answers.exported,
  }),
  route({
    method: 'get',
    path: '/v1/admin/exports',
    access: platformAdmin,
    input: listed,
    handler: async (ctx: Ctx, { org_id, status: of, ...request }) => {
      await ownerOf(ctx, org_id);
      return listedOf(exports.list(ctx.db, { org_id, status: of }, request));
    },
    summary: 'Exports of all organizations and of the platform, newest first.',
    answer: shared.parts({ exports: answers.exported }),
  }),
  route({
    method: 'get',
    path: '/v1/exports/:id',
    access: billing,
    input: named,
    handler: get,
    summary: 'One export with its files, as far as they are written.',
    answer: answers.exportedWithFiles,
  }),
  route({
    method: 'delete',
    path: '/v1/exports/:id',
    access: billing,
    input: named,
    handler: ({ db, principal }: Ctx, input) => exports.cancel(db, input.id, reachOf(principal)),
    is_recorded: true,
    summary: 'Cancel an export, or end one that is completed; what was written is deleted.',
    answer: answers.exported,
  }),
  route({
    method: 'get',
    path: '/v1/exports/:id/files/:n',
    access: billing,
    input: namedFile,
    handler: getFile,
    summary:
      'The bytes of a file of a completed export; a Range is answered, the ETag is its SHA-256.',
  }),
];

async function make(ctx: Ctx, { org_id: given, ...period }: z.infer<typeof wantedOfOrg>) {
  return makeFor(ctx, await actingOrg(ctx.db, ctx.principal, given), period);
}

async function makeFor(ctx: Ctx, org_id: string | null, given: z.infer<typeof wantedOfAll>) {
  const { db, principal } = ctx;
  requireKinds(principal, given.kinds);
  if (await isRepeated(ctx, org_id)) return undefined;
  const { destination_id = null, time_zone, ...asked } = given;
  if (destination_id !== null) await destinations.requireUsable(db, destination_id, org_id);
  const place = { target: targetNamed(destination_id), org_id, destination_id };
  await atTarget(await ctx.exportTargetOf(place), (target) => target.check());
  const period = await making.periodIn(db, time_zone, asked);
  const moment_now = await settling.momentNow(db);
  making.requirePeriod(period, moment_now.now);
  making.requireKept(given.kinds, period.from, moment_now.now);
  await settled(ctx, moment_now);
  const by = makerOf(principal);
  const { from, to } = period;
  return once(ctx, org_id, (trx) =>
    making.create(trx, { ...asked, org_id, destination_id, from, to, ...by }, ctx.export_bytes_max),
  );
}

function targetNamed(destination_id: string | null): 'folder' | 's3' {
  return destination_id === null ? 'folder' : 's3';
}

const SETTLED_MS_MAX = 5_000;
const LOOK_MS = 50;

/**
 * Waits until everything that bears a time before a moment can be seen; 503 after 5 s, which names
 * to an operator the session that keeps it waiting.
 */
async function settled({ db, principal, log }: Ctx, moment: settling.Moment): Promise<void> {
  const until = performance.now() + SETTLED_MS_MAX;
  for (;;) {
    const writing = await settling.openSince(db, moment);
    if (writing === undefined) return;
    if (performance.now() > until) {
      const words = settling.openWords(writing);
      log.warn(writing, `an export waits: ${words}`);
      throw new AppError(
        'unavailable',
        `Something is still being written. Ask again. ${isPlatformAdmin(principal) ? words : 'If this goes on, the operator finds the reason in the log of the API.'}`,
        { retry_after: 5 },
      );
    }
    await sleep(LOOK_MS);
  }
}

/** Whose exports a caller reaches by their id; undefined: all of them. */
function reachOf(principal: Principal): string | undefined {
  return ownOrg(principal) ?? undefined;
}

async function list({ db, principal }: Ctx, input: z.infer<typeof listed>) {
  const { org_id: given, status: of, ...request } = input;
  const org_id = await actingOrg(db, principal, given);
  return listedOf(exports.list(db, { org_id, status: of }, request));
}

async function listedOf(list: ReturnType<typeof exports.list>) {
  const { rows, ...rest } = await list;
  return { exports: rows, ...rest };
}

async function get({ db, principal }: Ctx, input: z.infer<typeof named>) {
  const found = await exports.get(db, input.id, reachOf(principal));
  const files = await exports.filesOf(db, found.id);
  return {
    ...found,
    // Which events there were is not told to who may not read them.
    files: files.map((file) =>
      mayRead(principal, file.kind) ? file : { ...file, first_id: null, last_id: null, sums: null },
    ),
  };
}

const content_types = {
  jsonl: 'application/gzip',
  csv: 'application/gzip',
  parquet: 'application/vnd.apache.parquet',
};

async function getFile(
  { db, principal, http, exportTargetOf }: Ctx,
  input: z.infer<typeof namedFile>,
) {
  const found = await exports.get(db, input.id, reachOf(principal));
  requireKinds(principal, found.kinds);
  requireFiles(found);
  const file = await exports.fileOf(db, found.id, input.n);
  const { sha256, bytes, kind } = file;
  if (sha256 === null || bytes === null)
    throw new AppError('not_found', 'This day has no rows, and so no file.', { param: 'n' });
  const name = fileName(file, found.format);
  const content_type = kind === 'manifest' ? 'application/json' : content_types[found.format];
  const at = `${folderOf(found)}/${name}`;
  return atTarget(await exportTargetOf(found), async (target) => {
    if (found.target === 's3') {
      const got = await target.read(at);
      if ('url' in got) http.redirect(got.url);
      return;
    }
    const offered = { name, content_type, bytes: Number(bytes), sha256 };
    const asked = askedOf(http, offered);
    if (asked.status === 304) {
      http.body = null;
      describeFile(http, offered, asked);
      return;
    }
    const got = await target.read(at, asked.status === 206 ? asked.range : undefined);
    describeFile(http, offered, asked);
    if ('body' in got) http.body = got.body;
  });
}

/** Refuses an export whose files are not all there. */
function requireFiles({ status: of }: exports.Export): void {
  if (of === 'completed') return;
  if (of === 'expired')
    throw new AppError('export_expired', 'The files of this export are deleted. Ask for it again.');
  if (of === 'queued' || of === 'running')
    throw new AppError(
      'export_not_written',
      'This export is not completed yet. GET /v1/exports/{id} says how far it is.',
    );
  throw new AppError('export_state', `This export is ${of}: it has no files.`);
}
