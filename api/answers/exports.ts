import { z } from 'zod';
import type { Destination } from '../../domain/exports/destinations';
import {
  type Export,
  type ExportFile,
  export_statuses,
  formats,
} from '../../domain/exports/exports';
import { kind_names } from '../../domain/exports/kinds';
import type { ExportSchedule } from '../../domain/exports/schedules';
import type { Sum } from '../../domain/exports/sums';
import type { Wire } from '../../runtime/wire';
import type { Members } from '../http/fields';
import { id, time } from './shared';

/** Digits of nanos become a number of major units. */
type WireSum = Omit<Wire<Sum>, 'amount'> & { amount: number | null };

const sum = z.strictObject({
  currency: z.string().nullable(),
  type: z.string().describe('The type of entry or event, or the status of a row.'),
  rows: z.int(),
  amount: z.number().nullable().describe('The files have it exactly, as text.'),
} satisfies Members<WireSum>);

const status = z.enum(export_statuses);

const members = {
  id,
  org_id: id.nullable().describe('Null: of all organizations.'),
  kinds: z.array(z.enum(kind_names)),
  format: z.enum(formats),
  from: time,
  to: time.describe('The first moment that is no longer in it.'),
  target: z.enum(['folder', 's3']).describe('s3: the bucket of destination_id.'),
  destination_id: id.nullable(),
  schedule_id: id.nullable().describe('The schedule that made it.'),
  status,
  parts_done: z.int().describe('Files that are written.'),
  parts_total: z.int().describe('Files to write: one for each kind and day, and the manifest.'),
  rows: z.int().describe('Rows that are written by now.'),
  bytes: z.int(),
  created_at: time.describe('What it holds was fixed then.'),
  created_by: id,
  started_at: time.nullable(),
  ended_at: time.nullable(),
  expires_at: time.nullable().describe('Its files are deleted then.'),
  error_code: z.string().nullable().describe('Of one that runs: what its last try met.'),
  error_message: z.string().nullable(),
} satisfies Members<Wire<Export>>;

/** A bucket that exports may go to. */
export const destination = z.strictObject({
  id,
  org_id: id.nullable().describe("Null: the platform's."),
  endpoint: z.url(),
  region: z.string(),
  bucket: z.string(),
  created_by: id,
  created_at: time,
} satisfies Members<Wire<Destination>>);

/** Exports of one day or month after the other. */
export const schedule = z.strictObject({
  id,
  org_id: id.nullable().describe('Null: of all organizations.'),
  kinds: z.array(z.enum(kind_names)),
  format: z.enum(formats),
  every: z.enum(['day', 'month']),
  lag_minutes: z.int(),
  destination_id: id.nullable(),
  time_zone: z.string().describe('Whose days and months its windows are.'),
  window_from: time.describe('The window that is exported next, or now, begins here.'),
  next_at: time.describe('When that is due.'),
  last_export_id: id.nullable(),
  last_status: status.nullable(),
  created_by: id,
  created_at: time,
  ended_at: time.nullable(),
  ended_reason: z.string().nullable().describe('Why it ended by itself.'),
  waiting_since: time
    .nullable()
    .describe(
      'Since then it makes no exports, as there is no room for one, or its newest export lacks what had been deleted.',
    ),
  waiting_reason: z
    .string()
    .nullable()
    .describe('Why it waits and what makes room, or what its newest export lacks.'),
} satisfies Members<Wire<ExportSchedule>>);

/** An export, as it stands in lists. */
export const exported = z.strictObject(members);

const file = z.strictObject({
  n: z.int().describe('0 is the manifest, which is written last.'),
  kind: z.enum([...kind_names, 'manifest']),
  day: z.iso.date().nullable().describe('Null: of the whole period.'),
  rows: z.int(),
  bytes: z.int().nullable().describe('Null until it is written, and of a day without rows.'),
  sha256: z.string().nullable(),
  first_id: id.nullable(),
  last_id: id.nullable(),
  sums: z.array(sum).nullable(),
  written_at: time.nullable(),
} satisfies Members<Omit<Wire<ExportFile>, 'sums'> & { sums: WireSum[] | null }>);

/** An export with its files. */
export const exportedWithFiles = z.strictObject({ ...members, files: z.array(file) });
