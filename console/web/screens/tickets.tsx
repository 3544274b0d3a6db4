import { Button, Checkbox, Group, Select, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useEffect, useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { serverNow } from '../base/clock';
import { DayRange, dayShape, momentsOf } from '../fields/day-range';
import { FilterInput } from '../fields/filter-input';
import { oneOf, text, useFilters } from '../fields/filters';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { AppLink, LinkButton } from '../parts/link';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { Countdown, Time } from '../parts/time';
import { decidesTickets, may, useMe, useZone } from '../session/me';
import { BulkDecision } from '../tickets/bulk';
import { ticketCsv } from '../tickets/csv';
import { ApproveDialog, DenyDialog } from '../tickets/decide';
import { type CostTicket, missingWords, states, TicketState } from '../tickets/words';

const statuses = ['open', 'approved', 'denied', 'redeemed', 'expired'] as const;
const shape = {
  status: oneOf(...statuses, 'all'),
  whose: oneOf('mine', 'all'),
  cause: oneOf('balance', 'budget'),
  q: text,
  ...dayShape,
  cursor: text,
};

/** The inbox: calls that no wallet or budget covered, and what people decide about them. */
export function Tickets() {
  const me = useMe();
  const [filters, set] = useFilters(shape);
  const decides = decidesTickets(me);
  const is_mine = !decides || filters.whose === 'mine';
  const bills = may(me, 'org:billing');
  const is_all = bills || filters.whose === 'all';
  const status = filters.status ?? 'open';
  const zone = useZone();
  // Nobody approves a ticket that is closed.
  const is_approvable = !is_mine && !is_all && status === 'open';
  const asked = {
    ...(status === 'all' ? {} : { status }),
    ...(is_mine ? { mine: 'true' as const } : {}),
    ...(is_approvable ? { approvable: 'true' as const } : {}),
    cause: filters.cause,
    q: filters.q,
    ...momentsOf(filters, zone),
  };
  const query = useQuery({
    ...reading('GET /api/tickets', {
      query: { ...asked, cursor: filters.cursor ?? 'first', per_page: 50 },
    }),
    refetchInterval: 30_000,
  });
  const read: ReadPart<CostTicket> = async (place = 'first') => {
    const page = { cursor: place, per_page: PART_ROWS };
    const answer = await call('GET /api/tickets', { query: { ...asked, ...page } });
    return { items: answer.tickets, next: nextOf(answer) };
  };
  const [approving, setApproving] = useState<CostTicket>();
  const [denying, setDenying] = useState<CostTicket>();
  const [chosen, setChosen] = useState<ReadonlyMap<string, CostTicket>>(new Map());
  // What is not shown any more is not decided about.
  const list = JSON.stringify(filters);
  // biome-ignore lint/correctness/useExhaustiveDependencies: with each other list.
  useEffect(() => setChosen(new Map()), [list]);
  const navigate = useNavigate();
  const may_decide = (ticket: CostTicket) =>
    decides && !is_mine && (bills || is_approvable) && ticket.status === 'open';
  /** A ticket that a dialog is about, as it is by now. */
  const live = (ticket: CostTicket | undefined) =>
    query.data?.tickets.find(({ id }) => id === ticket?.id) ?? ticket;
  const pick = (ticket: CostTicket) =>
    setChosen((before) => {
      const after = new Map(before);
      if (!after.delete(ticket.id)) after.set(ticket.id, ticket);
      return after;
    });
  return (
    <Page
      title="Tickets"
      about="Calls that no wallet or budget covered. Each waits for a person."
      actions={
        bills && (
          <LinkButton to="/tickets/rules" variant="default">
            Approval rules
          </LinkButton>
        )
      }
    >
      <Filters {...{ filters, set, decides, bills }}>
        <CsvButton file="tickets" read={read} columns={ticketCsv} />
      </Filters>
      <BulkDecision
        chosen={chosen}
        shown={(query.data?.tickets ?? []).filter(may_decide)}
        choose={(tickets) => setChosen(new Map(tickets.map((one) => [one.id, one])))}
        clear={(ids) =>
          setChosen((before) => new Map(ids && [...before].filter(([id]) => !ids.includes(id))))
        }
      />
      <DataTable
        label="Tickets"
        query={query}
        itemsOf={({ tickets }) => tickets}
        keyOf={({ id }) => id}
        columns={[
          ...(decides && !is_mine && (bills || is_approvable) ? [pickColumn(chosen, pick)] : []),
          ...columns,
        ]}
        cursor={filters.cursor}
        onCursor={(cursor) => set({ cursor })}
        onOpen={({ id }) => void navigate({ to: `/tickets/${id}` })}
        empty={
          <Empty title={status === 'open' ? 'No open tickets' : 'No tickets'}>
            When a call costs more than its wallet or budget has, it appears here within a second.
          </Empty>
        }
        actions={(ticket) =>
          may_decide(ticket) ? (
            <>
              <Button size="compact-sm" onClick={() => setApproving(ticket)}>
                Approve
              </Button>
              <Button size="compact-sm" variant="default" onClick={() => setDenying(ticket)}>
                Deny
              </Button>
            </>
          ) : null
        }
      />
      <ApproveDialog ticket={live(approving)} onClose={() => setApproving(undefined)} />
      <DenyDialog ticket={denying} onClose={() => setDenying(undefined)} />
    </Page>
  );
}

const columns: Column<CostTicket>[] = [
  {
    title: 'Who asks',
    cell: ({ id, asked_by }) => <AppLink to={`/tickets/${id}`}>{asked_by}</AppLink>,
  },
  { title: 'Model', cell: ({ model }) => <span className="wrap">{model}</span> },
  {
    title: 'Estimate',
    is_number: true,
    cell: ({ estimated_cost, currency }) => (
      <Money amount={estimated_cost} currency={currency} is_most />
    ),
  },
  { title: 'Missing', is_number: true, cell: (ticket) => missingWords(ticket) },
  {
    title: 'State',
    cell: (ticket) => (
      <Group gap={4}>
        <TicketState ticket={ticket} />
        {ticket.status === 'open' && ticket.waiting_calls > 0 && (
          <Text size="sm" fw={600}>
            a call is waiting now
          </Text>
        )}
      </Group>
    ),
  },
  {
    title: 'Time',
    cell: ({ status, created_at, expires_at }) =>
      status === 'open' ? (
        <Countdown until={expires_at} now_ms={serverNow} verb="ends" />
      ) : (
        <Time at={created_at} />
      ),
  },
];

function pickColumn(
  chosen: ReadonlyMap<string, CostTicket>,
  pick: (ticket: CostTicket) => void,
): Column<CostTicket> {
  return {
    title: 'Choose',
    cell: (ticket) =>
      ticket.status === 'open' ? (
        <Checkbox
          checked={chosen.has(ticket.id)}
          onChange={() => pick(ticket)}
          aria-label={`Choose the ticket of ${ticket.asked_by}`}
        />
      ) : null,
  };
}

function Filters({
  filters,
  set,
  decides,
  bills,
  children,
}: {
  filters: ReturnType<typeof useFilters<typeof shape>>[0];
  set: ReturnType<typeof useFilters<typeof shape>>[1];
  decides: boolean;
  bills: boolean;
  children: ReactNode;
}) {
  return (
    <Group gap="xs" align="flex-end">
      <Select
        label="State"
        data={[
          ...statuses.map((value) => ({ value, label: states[value].word as string })),
          { value: 'all', label: 'all' },
        ]}
        value={filters.status ?? 'open'}
        onChange={(value) => set({ status: (value ?? 'open') as 'open' })}
        allowDeselect={false}
        w={130}
      />
      {decides && (
        <Select
          label="Show"
          data={[
            { value: 'decided', label: 'for me to decide' },
            { value: 'mine', label: 'from my own calls' },
            // Among them are some whose budgets only billing admins raise.
            ...(bills ? [] : [{ value: 'all', label: 'from my teams' }]),
          ]}
          value={filters.whose ?? 'decided'}
          onChange={(value) => set({ whose: value === 'decided' ? undefined : (value as 'all') })}
          allowDeselect={false}
          w={170}
        />
      )}
      <Select
        label="Waiting for"
        placeholder="anything"
        data={[
          { value: 'balance', label: 'money' },
          { value: 'budget', label: 'a budget' },
        ]}
        value={filters.cause ?? null}
        onChange={(value) => set({ cause: (value ?? undefined) as 'balance' | undefined })}
        clearable
        clearButtonProps={{ 'aria-label': 'Show tickets of either cause' }}
        w={150}
      />
      <FilterInput
        label="Name"
        placeholder="person, team or agent"
        value={filters.q}
        onFilter={(q) => set({ q })}
        w={200}
      />
      <DayRange days={filters} set={set} />
      {children}
    </Group>
  );
}
