import type { Answer } from '../api/client';
import type { AnyColumn } from '../base/csv';
import type { Export } from './words';

export type Schedule = Answer<'GET /api/export-schedules'>['schedules'][number];

/** What a file says of exports. */
export const exportCsv: AnyColumn<Export>[] = [
  { title: 'id', text: ({ id }) => id },
  { title: 'from', text: ({ from }) => from },
  { title: 'to', text: ({ to }) => to },
  { title: 'kinds', text: ({ kinds }) => kinds.join(' ') },
  { title: 'format', text: ({ format }) => format },
  { title: 'target', text: ({ target }) => target },
  { title: 'status', text: ({ status }) => status },
  { title: 'rows', text: ({ rows }) => String(rows) },
  { title: 'bytes', text: ({ bytes }) => String(bytes) },
  { title: 'schedule_id', text: ({ schedule_id }) => schedule_id },
  { title: 'created_at', text: ({ created_at }) => created_at },
  { title: 'created_by', text: ({ created_by }) => created_by },
  { title: 'created_by_name', name_of: ({ created_by }) => created_by },
  { title: 'ended_at', text: ({ ended_at }) => ended_at },
  { title: 'expires_at', text: ({ expires_at }) => expires_at },
  { title: 'error_code', text: ({ error_code }) => error_code },
];

/** What a file says of schedules. */
export const scheduleCsv: AnyColumn<Schedule>[] = [
  { title: 'id', text: ({ id }) => id },
  { title: 'kinds', text: ({ kinds }) => kinds.join(' ') },
  { title: 'format', text: ({ format }) => format },
  { title: 'every', text: ({ every }) => every },
  { title: 'time_zone', text: ({ time_zone }) => time_zone },
  { title: 'lag_minutes', text: ({ lag_minutes }) => String(lag_minutes) },
  { title: 'destination_id', text: ({ destination_id }) => destination_id },
  { title: 'next_at', text: ({ next_at }) => next_at },
  { title: 'last_export_id', text: ({ last_export_id }) => last_export_id },
  { title: 'last_status', text: ({ last_status }) => last_status },
  { title: 'created_at', text: ({ created_at }) => created_at },
  { title: 'created_by', text: ({ created_by }) => created_by },
  { title: 'created_by_name', name_of: ({ created_by }) => created_by },
  { title: 'ended_at', text: ({ ended_at }) => ended_at },
  { title: 'ended_reason', text: ({ ended_reason }) => ended_reason },
];
