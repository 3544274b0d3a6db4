import { Button, Group, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { FilterInput } from '../fields/filter-input';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { may, useMe } from '../session/me';
import { ArchiveTeam, TeamMembers, TeamName } from './team-dialogs';
import type { Team } from './words';

export interface TeamFilters {
  q?: string | undefined;
  status?: 'active' | 'archived' | undefined;
  cursor?: string | undefined;
}

const columns: Column<Team>[] = [
  { title: 'Name', cell: ({ name }) => <span className="wrap">{name}</span> },
  { title: 'Since', cell: ({ created_at }) => <Time at={created_at} /> },
  {
    title: 'State',
    cell: ({ archived_at }) =>
      archived_at === null ? (
        <State word="active" kind="good" />
      ) : (
        <State word="archived" kind="neutral" />
      ),
  },
  { title: 'Id', cell: ({ id }) => <CopyId value={id} /> },
];

/** The teams of the organization, and what can be done with each. */
export function Teams({
  filters,
  set,
}: {
  filters: TeamFilters;
  set: (change: TeamFilters) => void;
}) {
  const me = useMe();
  const is_manager = may(me, 'org:members');
  const { q, status = 'active', cursor = 'first' } = filters;
  const query = useQuery(
    reading('GET /api/organizations/:id/teams', {
      names: { id: me.acting_org ?? '' },
      query: { q, status, cursor, per_page: 50, sort: 'name' },
    }),
  );
  const read: ReadPart<Team> = async (place = 'first') => {
    const answer = await call('GET /api/organizations/:id/teams', {
      names: { id: me.acting_org ?? '' },
      query: { q, status, cursor: place, per_page: PART_ROWS, sort: 'name' },
    });
    return { items: answer.teams, next: nextOf(answer) };
  };
  const [looking, setLooking] = useState<Team>();
  const [renaming, setRenaming] = useState<Team>();
  const [archiving, setArchiving] = useState<Team>();
  return (
    <>
      <Group gap="xs" align="flex-end">
        <FilterInput label="Name" value={q} onFilter={(q) => set({ q })} w={220} />
        <Select
          label="State"
          data={['active', 'archived']}
          value={status}
          onChange={(value) => set({ status: (value ?? 'active') as 'active' })}
          allowDeselect={false}
          w={140}
        />
        <CsvButton file="teams" read={read} columns={csv} />
      </Group>
      <DataTable
        label="Teams"
        query={query}
        itemsOf={({ teams }) => teams}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(next) => set({ cursor: next })}
        empty={<Empty title="No teams">A team has a wallet, keys and people of its own.</Empty>}
        actions={(team) => (
          <>
            <Button
              size="compact-sm"
              variant="default"
              aria-label={`Members of ${team.name}`}
              onClick={() => setLooking(team)}
            >
              Members
            </Button>
            {is_manager && team.archived_at === null && (
              <>
                <Button size="compact-sm" variant="default" onClick={() => setRenaming(team)}>
                  Rename
                </Button>
                <Button size="compact-sm" variant="default" onClick={() => setArchiving(team)}>
                  Archive
                </Button>
              </>
            )}
          </>
        )}
      />
      <TeamMembers team={looking} onClose={() => setLooking(undefined)} />
      <TeamName
        opened={renaming !== undefined}
        team={renaming}
        onClose={() => setRenaming(undefined)}
      />
      <ArchiveTeam team={archiving} onClose={() => setArchiving(undefined)} />
    </>
  );
}

const csv = [
  { title: 'team_id', text: ({ id }: Team) => id },
  { title: 'name', text: ({ name }: Team) => name },
  { title: 'since', text: ({ created_at }: Team) => created_at },
  { title: 'archived', text: ({ archived_at }: Team) => archived_at },
];
