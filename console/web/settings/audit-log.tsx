import { Button, Group, Select, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { DayRange, type Days, momentsOf } from '../fields/day-range';
import { FilterInput } from '../fields/filter-input';
import { MemberSelect } from '../fields/member-select';
import { CopyId } from '../parts/copy-id';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { Dialog } from '../parts/dialog';
import { AppLink } from '../parts/link';
import { Name, PersonName, useNamesOf } from '../parts/names';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { useMe, useZone } from '../session/me';
import { AuditValue, fieldWords } from './audit-values';

type Change = Extract<Answer<'GET /api/audit-log'>, { next: unknown }>['audit_log'][number];
type ActorType = Change['actor']['type'];

export interface AuditFilters extends Days {
  actor?: string | undefined;
  actor_type?: ActorType | undefined;
  action?: string | undefined;
  object_id?: string | undefined;
  cursor?: string | undefined;
}

const actors: Record<ActorType, string> = {
  user: 'a person',
  key: 'a key',
  platform: 'the platform',
  system: 'a program',
};

/** A noun and what became of it, in words: `team_member.created` is "team member created". */
const actionWords = (action: string) => action.replaceAll(/[._]/g, ' ');

const columns: Column<Change>[] = [
  { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Who', cell: (change) => <Actor change={change} /> },
  { title: 'What', cell: ({ action }) => actionWords(action) },
  { title: 'Which', cell: (change) => <Which change={change} /> },
];

/** Every change by a person, a key or a program, newest first. */
export function AuditLog({
  filters,
  set,
}: {
  filters: AuditFilters;
  set: (change: AuditFilters) => void;
}) {
  const { actor, actor_type, action, object_id, cursor = 'first' } = filters;
  const me = useMe();
  const by_whole_action = action?.includes('.');
  const asked = {
    ...momentsOf(filters, useZone()),
    actor,
    actor_type,
    object_id,
    ...(by_whole_action ? { action } : { object_type: action }),
  };
  const query = useQuery(
    reading('GET /api/audit-log', { query: { ...asked, cursor, per_page: 50 } }),
  );
  const read: ReadPart<Change> = async (place = 'first') => {
    const page = { cursor: place, per_page: PART_ROWS };
    const answer = await call('GET /api/audit-log', { query: { ...asked, ...page } });
    return { items: answer.audit_log, next: nextOf(answer) };
  };
  const [open, setOpen] = useState<Change>();
  return (
    <>
      <Group gap="xs" align="flex-end" mb="sm">
        <Select
          label="Done by"
          placeholder="anybody"
          data={[
            { value: 'user', label: 'people' },
            { value: 'key', label: 'keys' },
            { value: 'platform', label: 'the platform' },
            { value: 'system', label: 'programs' },
          ]}
          value={actor_type ?? null}
          onChange={(value) => set({ actor_type: (value ?? undefined) as ActorType | undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Show changes by anybody' }}
          w={150}
        />
        {me.acting_org !== null && <Person id={actor} set={set} />}
        <FilterInput
          label="What"
          placeholder="key, key.created"
          value={action}
          onFilter={(words) => set({ action: words })}
          w={180}
        />
        <FilterInput
          label="Id of the thing"
          value={object_id}
          onFilter={(words) => set({ object_id: words })}
          w={220}
        />
        <DayRange days={filters} set={set} />
        <CsvButton file="audit-log" read={read} columns={csv} />
      </Group>
      <DataTable
        label="Changes"
        query={query}
        itemsOf={({ audit_log }) => audit_log}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(next) => set({ cursor: next })}
        empty={<Empty title="No such change">Take a filter out to see more.</Empty>}
        actions={(change) => (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`What changed: ${actionWords(change.action)}`}
            onClick={() => setOpen(change)}
          >
            What changed
          </Button>
        )}
      />
      <Dialog
        opened={open !== undefined}
        onClose={() => setOpen(undefined)}
        title={open ? actionWords(open.action) : ''}
        size="lg"
      >
        {open && <Detail change={open} />}
      </Dialog>
    </>
  );
}

/** Whose changes are shown, of the members. */
function Person({ id, set }: { id: string | undefined; set: (change: AuditFilters) => void }) {
  const names = useNamesOf(id === undefined ? [] : [id]);
  return (
    <MemberSelect
      label="Person"
      none="Show changes by every person"
      value={id === undefined ? null : { id, name: names.get(id) ?? id }}
      onChange={(member) => set({ actor: member?.id })}
    />
  );
}

function Actor({ change: { actor } }: { change: Change }) {
  if (actor.name !== null) return <span className="wrap">{actor.name}</span>;
  return actor.id === null ? (
    <span>{actors[actor.type] ?? actor.type}</span>
  ) : (
    <PersonName id={actor.id} />
  );
}

/** Where a thing without a name is shown. */
const pages: Record<string, string> = {
  payment: '/payments/',
  cost_ticket: '/tickets/',
  export: '/exports/',
  wallet: '/wallets/',
};

/** The thing by the name that it has, or had; else where it is shown, or its id. */
function Which({ change: { object, before, after } }: { change: Change }) {
  const type = actionWords(object.type);
  // The name of a session says nothing to people.
  const name = object.type === 'session' ? undefined : (after?.name ?? before?.name);
  const path = pages[object.type];
  return (
    <Group gap={4}>
      <span className="wrap">
        {path === undefined ? type : <AppLink to={`${path}${object.id}`}>{type}</AppLink>}
        {typeof name === 'string' ? ` ${name}` : ''}
      </span>
      {typeof name !== 'string' && <Name id={object.id} />}
    </Group>
  );
}

function Detail({ change }: { change: Change }) {
  const { before, after, created_at, session_id, request_id, key_id, seq, hash } = change;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  // What a side leaves out it has in common with the other.
  const rows = { was: { ...after, ...before }, is: { ...before, ...after } };
  const ids = {
    [actionWords(change.object.type)]: change.object.id,
    session: session_id,
    key: key_id,
    request: request_id,
    hash,
  };
  return (
    <Stack gap="sm">
      <Group gap="xs">
        <Actor change={change} />
        <Time at={created_at} />
        <Text c="dimmed">change {seq} of the chain</Text>
      </Group>
      <Table.ScrollContainer minWidth={0} type="native" className="table">
        <Table aria-label="Before and after">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Field</Table.Th>
              <Table.Th>Before</Table.Th>
              <Table.Th>After</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {names.map((name) => {
              const [was, is] = [before?.[name], after?.[name]];
              const is_same = JSON.stringify(was) === JSON.stringify(is);
              return (
                <Table.Tr key={name} fw={is_same ? 400 : 700}>
                  <Table.Td data-title="Field">{fieldWords(name)}</Table.Td>
                  <Table.Td data-title="Before" className="wrap">
                    <AuditValue field={name} value={was} row={rows.was} />
                  </Table.Td>
                  <Table.Td data-title="After" className="wrap">
                    <AuditValue field={name} value={is} row={rows.is} />
                  </Table.Td>
                </Table.Tr>
              );
            })}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Group gap="xs">
        {Object.entries(ids).map(
          ([name, id]) =>
            id && (
              <Group key={name} gap={4}>
                <Text size="sm" c="dimmed">
                  {name}
                </Text>
                <CopyId value={id} />
              </Group>
            ),
        )}
      </Group>
    </Stack>
  );
}

const csv = [
  { title: 'at', text: ({ created_at }: Change) => created_at },
  { title: 'actor_type', text: ({ actor }: Change) => actor.type },
  { title: 'actor_id', text: ({ actor }: Change) => actor.id },
  { title: 'actor', text: ({ actor }: Change) => actor.name },
  { title: 'action', text: ({ action }: Change) => action },
  { title: 'object_id', text: ({ object }: Change) => object.id },
  { title: 'object_name', name_of: ({ object }: Change) => object.id },
  { title: 'before', text: ({ before }: Change) => before && JSON.stringify(before) },
  { title: 'after', text: ({ after }: Change) => after && JSON.stringify(after) },
  { title: 'hash', text: ({ hash }: Change) => hash },
];
