import { type ListRequest, listOf, type Part } from '../lists';
import type { Page } from '../pages';
import { type Db, owns } from '../sql';
import { columns, type Message, type Notice, notice_columns } from './messages';

/** Which messages; all that are given must fit. */
export interface MessageFilter {
  destination_id?: string | undefined;
  status?: Message['status'] | undefined;
}

/** Which notices; all that are given must fit. */
export interface NoticeFilter {
  destination_id?: string | undefined;
  /** Those that left in this message. */
  message_id?: string | undefined;
  cost_ticket_id?: string | undefined;
}

/** The log of messages to an organization's destinations, or to the platform's: null. */
export function messages(
  db: Db,
  org_id: string | null,
  { destination_id, status }: MessageFilter,
  request: ListRequest,
): Promise<Page<Message> | Part<Message>> {
  const conditions = [
    owns('d.org_id', org_id),
    ...(destination_id === undefined ? [] : ['m.destination_id = :destination_id']),
    ...(status === undefined ? [] : ['m.status = :status']),
  ];
  return listOf(
    db,
    {
      name: 'notice messages',
      select: `select ${columns}`,
      from: `from notice_messages m join notice_destinations d on d.id = m.destination_id where ${conditions.join(' and ')}`,
      bindings: { org_id, destination_id: destination_id ?? null, status: status ?? null },
      id: 'm.id',
      created_at: 'm.created_at',
    },
    request,
  );
}

/** What an organization's destinations, or the platform's, are told of. */
export function notices(
  db: Db,
  org_id: string | null,
  filter: NoticeFilter,
  request: ListRequest,
): Promise<Page<Notice> | Part<Notice>> {
  const names = ['destination_id', 'message_id', 'cost_ticket_id'] as const;
  const given = names.filter((name) => filter[name] !== undefined);
  const conditions = [owns('d.org_id', org_id), ...given.map((name) => `n.${name} = :${name}`)];
  return listOf(
    db,
    {
      name: 'notices',
      select: `select ${notice_columns}`,
      from: `from notices n join notice_destinations d on d.id = n.destination_id where ${conditions.join(' and ')}`,
      bindings: { org_id, ...filter },
      id: 'n.id',
      created_at: 'n.created_at',
    },
    request,
  );
}
