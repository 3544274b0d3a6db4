import { Button, Group, Menu, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { FilterInput } from '../fields/filter-input';
import { TeamSelect } from '../fields/team-select';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { may, useMe } from '../session/me';
import { ChangeRole, Invite, RemoveMember } from './member-dialogs';
import { RenameMember } from './rename-member';
import { type Member, type Role, roles, roleWords } from './words';

export interface MemberFilters {
  q?: string | undefined;
  role?: Role | undefined;
  team_id?: string | undefined;
  cursor?: string | undefined;
}

const columns: Column<Member>[] = [
  { title: 'Name', cell: ({ name }) => <span className="wrap">{name}</span> },
  { title: 'E-mail', cell: ({ email }) => <span className="wrap">{email ?? '–'}</span> },
  {
    title: 'Role',
    cell: ({ role }) => (
      <State word={roleWords(role)} kind={role === 'member' ? 'neutral' : 'info'} />
    ),
  },
  { title: 'Since', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Id', cell: ({ user_id }) => <CopyId value={user_id} /> },
];

/** The members of the organization, and what can be done with each. */
export function Members({
  filters,
  set,
}: {
  filters: MemberFilters;
  set: (change: MemberFilters) => void;
}) {
  const me = useMe();
  const id = me.acting_org ?? '';
  const is_manager = may(me, 'org:members');
  const { q, role, team_id, cursor = 'first' } = filters;
  const query = useQuery(
    reading('GET /api/organizations/:id/members', {
      names: { id },
      query: { q, role, team_id, cursor, per_page: 50, sort: 'name' },
    }),
  );
  const read: ReadPart<Member> = async (place = 'first') => {
    const answer = await call('GET /api/organizations/:id/members', {
      names: { id },
      query: { q, role, team_id, cursor: place, per_page: PART_ROWS, sort: 'name' },
    });
    return { items: answer.members, next: nextOf(answer) };
  };
  const [changing, setChanging] = useState<Member>();
  const [removing, setRemoving] = useState<Member>();
  const [inviting, setInviting] = useState<Member>();
  const [renaming, setRenaming] = useState<Member>();
  return (
    <>
      <FilterBar filters={filters} set={set} read={read} />
      <DataTable
        label="Members"
        query={query}
        itemsOf={({ members }) => members}
        keyOf={({ user_id }) => user_id}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(next) => set({ cursor: next })}
        empty={<Empty title="No member matches">Search for another name, or take them in.</Empty>}
        actions={
          is_manager
            ? (member) => (
                <MemberMenu
                  name={member.name}
                  onInvite={() => setInviting(member)}
                  onRename={() => setRenaming(member)}
                  onRole={() => setChanging(member)}
                  onRemove={() => setRemoving(member)}
                />
              )
            : undefined
        }
      />
      <ChangeRole member={changing} onClose={() => setChanging(undefined)} />
      <RemoveMember member={removing} onClose={() => setRemoving(undefined)} />
      <RenameMember member={renaming} onClose={() => setRenaming(undefined)} />
      <Invite member={inviting} onClose={() => setInviting(undefined)} />
    </>
  );
}

function MemberMenu({
  name,
  onInvite,
  onRename,
  onRole,
  onRemove,
}: {
  name: string;
  onInvite: () => void;
  onRename: () => void;
  onRole: () => void;
  onRemove: () => void;
}) {
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="compact-sm" variant="default" aria-label={`Change ${name}`}>
          Change
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={onInvite}>Invite to sign in</Menu.Item>
        <Menu.Item onClick={onRename}>Change name and address</Menu.Item>
        <Menu.Item onClick={onRole}>Change the role</Menu.Item>
        <Menu.Item onClick={onRemove}>Remove</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function FilterBar({
  filters,
  set,
  read,
}: {
  filters: MemberFilters;
  set: (change: MemberFilters) => void;
  read: ReadPart<Member>;
}) {
  return (
    <Group gap="xs" align="flex-end">
      <FilterInput label="Name or address" value={filters.q} onFilter={(q) => set({ q })} w={220} />
      <Select
        label="Role"
        placeholder="any"
        data={roles.map(({ value, label }) => ({ value, label }))}
        value={filters.role ?? null}
        onChange={(role) => set({ role: (role ?? undefined) as Role | undefined })}
        clearable
        clearButtonProps={{ 'aria-label': 'Show people of any role' }}
        w={160}
      />
      <TeamSelect
        label="Team"
        placeholder="any"
        none="Show people of any team"
        value={filters.team_id ?? null}
        onChange={(team_id) => set({ team_id: team_id ?? undefined })}
        w={200}
      />
      <CsvButton file="members" read={read} columns={csv} />
    </Group>
  );
}

const csv = [
  { title: 'user_id', text: ({ user_id }: Member) => user_id },
  { title: 'name', text: ({ name }: Member) => name },
  { title: 'email', text: ({ email }: Member) => email },
  { title: 'role', text: ({ role }: Member) => role },
  { title: 'since', text: ({ created_at }: Member) => created_at },
];
