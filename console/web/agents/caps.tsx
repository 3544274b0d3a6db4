import { Button, Group, Progress, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import type { ReadPart } from '../api/whole';
import type { AnyColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { listed } from '../parts/lists';
import { Money, moneyText } from '../parts/money';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { may, useCurrency, useMe } from '../session/me';
import { CapDialog, DeleteCap } from './cap-dialogs';
import { beyond, CAPS_MAX, type Cap, counts, modelWords } from './words';

/** The caps of an agent, how each stands in its window, and what can be done with it. */
export function Caps({ agent_id }: { agent_id: string }) {
  const is_manager = may(useMe(), 'agents:write');
  const currency = useCurrency();
  const query = useQuery({
    ...reading('GET /api/agents/:id/usage-constraints', { names: { id: agent_id } }),
    refetchInterval: 30_000,
  });
  const read: ReadPart<Cap> = async () => {
    const names = { id: agent_id };
    const answer = await call('GET /api/agents/:id/usage-constraints', { names });
    return { items: answer.usage_constraints, next: null };
  };
  const [is_making, setMaking] = useState(false);
  const [changing, setChanging] = useState<Cap>();
  const [deleting, setDeleting] = useState<Cap>();
  const count = query.data?.usage_constraints.length;
  return (
    <>
      <Group justify="space-between" mb="sm">
        <Text size="sm" c="dimmed">
          {count === undefined ? '' : `${count} of at most ${CAPS_MAX}.`}
        </Text>
        <Group gap="xs">
          <CsvButton file="caps" read={read} columns={csvOf(currency)} />
          {is_manager && (
            <Button
              disabled={count === undefined || count >= CAPS_MAX}
              onClick={() => setMaking(true)}
            >
              New cap
            </Button>
          )}
        </Group>
      </Group>
      <DataTable
        label="Caps"
        query={listed(query)}
        itemsOf={({ usage_constraints }) => usage_constraints}
        keyOf={({ id }) => id}
        columns={columnsOf(currency)}
        empty={
          <Empty title="No caps">
            A cap bounds what the agent may cost, or how often it is answered, in a window.
          </Empty>
        }
        actions={
          is_manager
            ? (cap) => (
                <>
                  <Button
                    size="compact-sm"
                    variant="default"
                    aria-label={`Change the cap on ${modelWords(cap)}`}
                    onClick={() => setChanging(cap)}
                  >
                    Change
                  </Button>
                  <Button
                    size="compact-sm"
                    variant="default"
                    aria-label={`Delete the cap on ${modelWords(cap)}`}
                    onClick={() => setDeleting(cap)}
                  >
                    Delete
                  </Button>
                </>
              )
            : undefined
        }
      />
      <CapDialog
        opened={is_making || changing !== undefined}
        agent_id={agent_id}
        cap={changing}
        onClose={() => {
          setMaking(false);
          setChanging(undefined);
        }}
      />
      <DeleteCap agent_id={agent_id} cap={deleting} onClose={() => setDeleting(undefined)} />
    </>
  );
}

function csvOf(currency: string): AnyColumn<Cap>[] {
  return [
    { title: 'id', text: ({ id }) => id },
    { title: 'provider', text: ({ provider }) => provider },
    { title: 'model_pattern', text: ({ model_pattern }) => model_pattern },
    { title: 'counts', text: ({ constraint_type }) => constraint_type },
    { title: 'interval', text: ({ interval }) => interval },
    { title: 'current_value', text: ({ current_value }) => decimalText(current_value) },
    { title: 'max_value', text: ({ max_value }) => decimalText(max_value) },
    {
      title: 'currency',
      text: ({ constraint_type }) => (constraint_type === 'cost' ? currency : null),
    },
    { title: 'beyond_it', text: ({ enforcement_mode }) => enforcement_mode },
    { title: 'resets_at', text: ({ resets_at }) => resets_at },
  ];
}

function columnsOf(currency: string): Column<Cap>[] {
  return [
    { title: 'On', cell: (cap) => <span className="wrap">{modelWords(cap)}</span> },
    { title: 'Counts', cell: ({ constraint_type }) => counts[constraint_type] },
    { title: 'Used', cell: (cap) => <Used cap={cap} currency={currency} /> },
    { title: 'Resets', cell: ({ resets_at }) => <Time at={resets_at} /> },
    { title: 'Calls beyond it', cell: ({ enforcement_mode }) => beyond[enforcement_mode] },
  ];
}

/** What is used and held of a cap in its window, as words and as a bar. */
function Used({ cap, currency }: { cap: Cap; currency: string }) {
  const { constraint_type, current_value, max_value, interval } = cap;
  const is_cost = constraint_type === 'cost';
  const share = max_value === 0 ? 100 : Math.min(100, (current_value / max_value) * 100);
  const text = (value: number) => (is_cost ? moneyText(value, currency) : String(value));
  const shown = (value: number) =>
    is_cost ? <Money amount={value} currency={currency} /> : <span>{value}</span>;
  return (
    <div>
      <Text size="sm" className="figures">
        {shown(current_value)} of {shown(max_value)}
        {is_cost ? '' : ' answers'} {interval === 'hour' ? 'an' : 'a'} {interval}
      </Text>
      <Progress
        value={share}
        size="sm"
        aria-label={`${text(current_value)} of ${text(max_value)}`}
        color={share >= 90 ? 'red' : 'indigo'}
      />
    </div>
  );
}
