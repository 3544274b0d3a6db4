import { Button, Group, Menu, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../../api/client';
import { reading } from '../../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../../api/whole';
import type { AnyColumn } from '../../base/csv';
import { FilterInput } from '../../fields/filter-input';
import { oneOf, text, useFilters } from '../../fields/filters';
import { OnlyOperators } from '../../operations/only-operators';
import {
  type Change,
  ChangeOrganization,
  changes,
  type Organization,
} from '../../operations/organization-dialogs';
import { State } from '../../parts/badge';
import { CopyId } from '../../parts/copy-id';
import { CsvButton } from '../../parts/csv';
import { type Column, DataTable } from '../../parts/data-table';
import { Page } from '../../parts/page';
import { Empty } from '../../parts/states';
import { Time } from '../../parts/time';

const statuses = ['active', 'suspended', 'archived'] as const;
const shape = { q: text, status: oneOf(...statuses), cursor: text };

/** The organizations of the platform, and what operators do with each. */
export function Organizations() {
  return (
    <OnlyOperators title="Organizations">
      <Inside />
    </OnlyOperators>
  );
}

function Inside() {
  const [filters, set] = useFilters(shape);
  const { q, status, cursor = 'first' } = filters;
  const asked = { q, status, sort: 'name' } as const;
  const query = useQuery(
    reading('GET /api/organizations', { query: { ...asked, cursor, per_page: 50 } }),
  );
  const read: ReadPart<Organization> = async (place = 'first') => {
    const part = { ...asked, cursor: place, per_page: PART_ROWS };
    const answer = await call('GET /api/organizations', { query: part });
    return { items: answer.organizations, next: nextOf(answer) };
  };
  const [change, setChange] = useState<{ of: Organization; what: Change }>();
  return (
    <Page
      title="Organizations"
      about="All of the platform. Choose which one you look at in the menu at the top."
    >
      <Group gap="xs" align="flex-end">
        <FilterInput label="Name" value={q} onFilter={(q) => set({ q })} w={220} />
        <Select
          label="State"
          placeholder="all but archived"
          data={[...statuses]}
          value={status ?? null}
          onChange={(value) => set({ status: (value ?? undefined) as 'active' | undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Show all but archived ones' }}
          w={180}
        />
        <CsvButton file="organizations" read={read} columns={csv} />
      </Group>
      <DataTable
        label="Organizations"
        query={query}
        itemsOf={({ organizations }) => organizations}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(next) => set({ cursor: next })}
        empty={<Empty title="No such organization">Take a filter out to see more.</Empty>}
        actions={(of) => <Acts of={of} onChange={(what) => setChange({ of, what })} />}
      />
      <ChangeOrganization change={change} onClose={() => setChange(undefined)} />
    </Page>
  );
}

function Acts({ of, onChange }: { of: Organization; onChange: (what: Change) => void }) {
  const offered: Change[] =
    of.archived_at !== null
      ? ['unarchive']
      : ['rename', of.suspended_at === null ? 'suspend' : 'unsuspend', 'archive'];
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="compact-sm" variant="default" aria-label={`Change ${of.name}`}>
          Change
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {offered.map((what) => (
          <Menu.Item key={what} onClick={() => onChange(what)}>
            {changes[what].label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function stateOf({ archived_at, suspended_at }: Organization) {
  if (archived_at !== null) return { word: 'archived', kind: 'neutral' } as const;
  if (suspended_at !== null) return { word: 'suspended', kind: 'bad' } as const;
  return { word: 'active', kind: 'good' } as const;
}

const columns: Column<Organization>[] = [
  { title: 'Name', cell: ({ name }) => <span className="wrap">{name}</span> },
  { title: 'Currency', cell: ({ currency }) => currency },
  {
    title: 'State',
    cell: (one) => (
      <Group gap={4}>
        <State {...stateOf(one)} />
        {one.suspended_at !== null && one.suspended_for && (
          <span className="wrap">{one.suspended_for}</span>
        )}
      </Group>
    ),
  },
  { title: 'Since', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Id', cell: ({ id }) => <CopyId value={id} /> },
];

const csv: AnyColumn<Organization>[] = [
  { title: 'id', text: ({ id }) => id },
  { title: 'name', text: ({ name }) => name },
  { title: 'currency', text: ({ currency }) => currency },
  { title: 'state', text: (one) => stateOf(one).word },
  { title: 'created_at', text: ({ created_at }) => created_at },
  { title: 'suspended_at', text: ({ suspended_at }) => suspended_at },
  { title: 'suspended_for', text: ({ suspended_for }) => suspended_for },
  { title: 'archived_at', text: ({ archived_at }) => archived_at },
];
