import { Button, Group, Select } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { AgentName, ArchiveAgent } from '../agents/dialogs';
import type { Agent } from '../agents/words';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { FilterInput } from '../fields/filter-input';
import { oneOf, text, useFilters } from '../fields/filters';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { Guarded } from '../parts/guarded';
import { AppLink } from '../parts/link';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { may, useMe } from '../session/me';

const shape = { q: text, status: oneOf('active', 'archived'), cursor: text };

/** The agents of the organization, and what can be done with each. */
export function Agents() {
  const me = useMe();
  if (me.acting_org === null)
    return (
      <Page title="Agents">
        <Empty title="Choose an organization">Choose one in the menu at the top.</Empty>
      </Page>
    );
  return (
    <Guarded title="Agents" rights={['agents:read']}>
      <Inside id={me.acting_org} />
    </Guarded>
  );
}

function Inside({ id }: { id: string }) {
  const is_manager = may(useMe(), 'agents:write');
  const [filters, set] = useFilters(shape);
  const { q, status = 'active', cursor = 'first' } = filters;
  const asked = { q, status, sort: 'name' } as const;
  const query = useQuery(
    reading('GET /api/organizations/:id/agents', {
      names: { id },
      query: { ...asked, cursor, per_page: 50 },
    }),
  );
  const read: ReadPart<Agent> = async (place = 'first') => {
    const answer = await call('GET /api/organizations/:id/agents', {
      names: { id },
      query: { ...asked, cursor: place, per_page: PART_ROWS },
    });
    return { items: answer.agents, next: nextOf(answer) };
  };
  const navigate = useNavigate();
  const [is_making, making] = useDisclosure();
  const [renaming, setRenaming] = useState<Agent>();
  const [archiving, setArchiving] = useState<Agent>();
  return (
    <Page
      title="Agents"
      about="Programs that act by themselves, each with caps and keys of its own."
      actions={is_manager && <Button onClick={making.open}>New agent</Button>}
    >
      <Group gap="xs" align="flex-end">
        <FilterInput label="Name" value={q} onFilter={(words) => set({ q: words })} w={220} />
        <Select
          label="State"
          data={['active', 'archived']}
          value={status}
          onChange={(value) => set({ status: (value ?? 'active') as 'active' })}
          allowDeselect={false}
          w={140}
        />
        <CsvButton file="agents" read={read} columns={csv} />
      </Group>
      <DataTable
        label="Agents"
        query={query}
        itemsOf={({ agents }) => agents}
        keyOf={(agent) => agent.id}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(next) => set({ cursor: next })}
        onOpen={(agent) => void navigate({ to: `/agents/${agent.id}` })}
        empty={
          <Empty title={q || status === 'archived' ? 'No agent is like this' : 'No agents'}>
            An agent has caps and keys of its own, and its spend is told apart.
          </Empty>
        }
        actions={
          is_manager
            ? (agent) =>
                agent.archived_at === null ? (
                  <>
                    <Button size="compact-sm" variant="default" onClick={() => setRenaming(agent)}>
                      Rename
                    </Button>
                    <Button size="compact-sm" variant="default" onClick={() => setArchiving(agent)}>
                      Archive
                    </Button>
                  </>
                ) : null
            : undefined
        }
      />
      <AgentName
        opened={is_making || renaming !== undefined}
        agent={renaming}
        onClose={() => {
          making.close();
          setRenaming(undefined);
        }}
      />
      <ArchiveAgent agent={archiving} onClose={() => setArchiving(undefined)} />
    </Page>
  );
}

const columns: Column<Agent>[] = [
  { title: 'Name', cell: ({ id, name }) => <AppLink to={`/agents/${id}`}>{name}</AppLink> },
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

const csv = [
  { title: 'agent_id', text: ({ id }: Agent) => id },
  { title: 'name', text: ({ name }: Agent) => name },
  { title: 'since', text: ({ created_at }: Agent) => created_at },
  { title: 'archived', text: ({ archived_at }: Agent) => archived_at },
];
