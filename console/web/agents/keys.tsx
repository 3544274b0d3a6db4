import { Button, Group } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reading } from '../api/queries';
import { keyColumns } from '../keys/columns';
import { CreateDialog } from '../keys/create';
import { type NewKey, ShownOnce } from '../keys/shown-once';
import { DataTable } from '../parts/data-table';
import { LinkButton } from '../parts/link';
import { Empty } from '../parts/states';
import { useCurrency } from '../session/me';
import type { Agent } from './words';

/** The living keys of an agent with their budgets, for who manages keys. */
export function AgentKeys({
  agent,
  cursor,
  onCursor,
}: {
  agent: Agent;
  cursor: string | undefined;
  onCursor: (cursor: string | undefined) => void;
}) {
  const currency = useCurrency();
  const query = useQuery(
    reading('GET /api/keys', {
      query: { agent_id: agent.id, status: 'active', cursor: cursor ?? 'first', per_page: 50 },
    }),
  );
  const [is_creating, { open, close }] = useDisclosure();
  const [made, setMade] = useState<NewKey>();
  return (
    <>
      <Group justify="flex-end" mb="sm">
        <LinkButton to="/keys" search={{ agent_id: agent.id }} variant="default">
          Change its keys
        </LinkButton>
        {agent.archived_at === null && <Button onClick={open}>New key</Button>}
      </Group>
      <DataTable
        label="Keys of the agent"
        query={query}
        itemsOf={({ tokens }) => tokens}
        keyOf={({ id }) => id}
        columns={keyColumns(currency, true)}
        cursor={cursor}
        onCursor={onCursor}
        empty={
          <Empty title="No keys">
            A key of the agent makes its calls. Other keys name it with each call, by
            x-svc-agent-id.
          </Empty>
        }
      />
      <CreateDialog opened={is_creating} agent={agent} onClose={close} onMade={setMade} />
      <ShownOnce made={made} onClose={() => setMade(undefined)} />
    </>
  );
}
