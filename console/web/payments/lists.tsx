import { Button, Group, Select, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading } from '../api/queries';
import { PART_ROWS, type ReadPart } from '../api/whole';
import { DayRange, momentsOf } from '../fields/day-range';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { Name, OrgName, PersonName } from '../parts/names';
import { firstPlace, pageAt, withNext } from '../parts/pages';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { useZone } from '../session/me';
import { adminPaymentCsv, paymentCsv } from './csv';
import type { PaymentFilters, SetPaymentFilters } from './filters';
import { ResolveDialog } from './resolve';
import {
  type AdminPayment,
  isToDecide,
  type Listed,
  providerWords,
  type Status,
  standing,
  states,
  statuses,
} from './words';

/** Which payments are shown, and how that changes. */
export interface ListProps {
  filters: PaymentFilters;
  set: SetPaymentFilters;
}

export const PER_PAGE = 50;

/** Which payments: their state, and the days on which they were begun. */
export function PaymentFilterBar({ filters, set }: ListProps) {
  return (
    <Group gap="xs" align="flex-end">
      <Select
        label="State"
        placeholder="any"
        data={statuses.map((value) => ({ value, label: states[value].word }))}
        value={filters.status ?? null}
        onChange={(value) => set({ status: (value ?? undefined) as Status | undefined })}
        clearable
        clearButtonProps={{ 'aria-label': 'Show payments in any state' }}
        w={180}
      />
      <DayRange days={filters} set={set} />
    </Group>
  );
}

/** What is asked for: the days are those of the zone in which times are shown. */
function askedOf({ status, cursor, ...days }: PaymentFilters, zone: string) {
  const { from, to } = momentsOf(days, zone);
  return {
    ...(status ? { status } : {}),
    ...(from ? { from_date: from } : {}),
    ...(to ? { to_date: to } : {}),
    ...pageAt(cursor),
    per_page: PER_PAGE,
  };
}

/** The payments of the organization, or one's own. */
export function History({ filters, set, is_own }: ListProps & { is_own: boolean }) {
  const zone = useZone();
  const query = askedOf(filters, zone);
  const all = useQuery({
    ...reading('GET /api/payments/history', { query }),
    select: withNext<Answer<'GET /api/payments/history'>>(filters.cursor),
    enabled: !is_own,
  });
  const own = useQuery({
    ...reading('GET /api/payments/sessions', { query }),
    select: withNext<Answer<'GET /api/payments/history'>>(filters.cursor),
    enabled: is_own,
  });
  const navigate = useNavigate();
  const shown = is_own ? own : all;
  const read: ReadPart<Listed> = async (place = firstPlace()) => {
    const part = { ...askedOf({ ...filters, cursor: place }, zone), per_page: PART_ROWS };
    const answer = is_own
      ? await call('GET /api/payments/sessions', { query: part })
      : await call('GET /api/payments/history', { query: part });
    const { sessions, next } = withNext<typeof answer>(place)(answer);
    return { items: sessions as Listed[], next };
  };
  return (
    <>
      <Group justify="flex-end">
        <CsvButton file="payments" read={read} columns={paymentCsv} />
      </Group>
      <DataTable
        label="Payments"
        query={shown}
        itemsOf={({ sessions }) => sessions}
        keyOf={({ id }) => id}
        columns={columns}
        cursor={filters.cursor}
        onCursor={(cursor) => set({ cursor })}
        onOpen={({ id }) => void navigate({ to: `/payments/${id}` })}
        empty={<Empty title="No payments">Top-ups appear here as soon as they are begun.</Empty>}
      />
    </>
  );
}

const columns: Column<Listed>[] = [
  { title: 'Begun', cell: ({ created_at }) => <Time at={created_at} /> },
  {
    title: 'Amount',
    is_number: true,
    cell: ({ id, amount, currency }) => (
      <AppLink to={`/payments/${id}`}>
        <Money amount={amount} currency={currency} />
      </AppLink>
    ),
  },
  {
    title: 'Credited',
    is_number: true,
    cell: ({ credited_amount, currency }) => <Some amount={credited_amount} currency={currency} />,
  },
  {
    title: 'Sent back',
    is_number: true,
    cell: ({ refunded_amount, currency }) => <Some amount={refunded_amount} currency={currency} />,
  },
  { title: 'State', cell: (payment) => <State {...standing(payment)} /> },
  {
    title: 'For',
    cell: ({ wallet_id }) => (
      <AppLink to={`/wallets/${wallet_id}`}>
        <Name id={wallet_id} />
      </AppLink>
    ),
  },
  { title: 'By', cell: ({ user_id }) => <PersonName id={user_id} /> },
  { title: 'At', cell: ({ provider }) => providerWords(provider) },
  { title: 'Payment', cell: ({ id }) => <CopyId value={id} /> },
];

/** An amount; none is a dash. */
function Some({ amount, currency }: { amount: number; currency: string }) {
  return amount === 0 ? <span>–</span> : <Money amount={amount} currency={currency} />;
}

/** The payments of all organizations, or of the one that is looked at. */
export function AllPayments({ filters, set, is_failed }: ListProps & { is_failed: boolean }) {
  const [deciding, setDeciding] = useState<AdminPayment>();
  const zone = useZone();
  const asked = (place: string | undefined) => {
    const all = askedOf({ ...filters, cursor: place }, zone);
    return is_failed ? { ...all, status: 'failed' as const } : all;
  };
  const query = useQuery({
    ...reading('GET /api/admin/payments', { query: asked(filters.cursor) }),
    select: withNext<Answer<'GET /api/admin/payments'>>(filters.cursor),
  });
  const read: ReadPart<AdminPayment> = async (place = firstPlace()) => {
    const part = { ...asked(place), per_page: PART_ROWS };
    const answer = await call('GET /api/admin/payments', { query: part });
    const { sessions, next } = withNext<typeof answer>(place)(answer);
    return { items: sessions, next };
  };
  const navigate = useNavigate();
  const open = ({ id }: AdminPayment) => void navigate({ to: `/payments/${id}` });
  return (
    <>
      <Group justify="flex-end">
        <CsvButton
          file={is_failed ? 'failed-payments' : 'payments'}
          read={read}
          columns={adminPaymentCsv}
        />
      </Group>
      <DataTable
        label={is_failed ? 'Payments that failed' : 'Payments'}
        query={query}
        itemsOf={({ sessions }) => sessions}
        keyOf={({ id }) => id}
        columns={admin_columns}
        cursor={filters.cursor}
        onCursor={(cursor) => set({ cursor })}
        onOpen={open}
        empty={<Empty title={is_failed ? 'No payment has failed' : 'No payments'} />}
        actions={(payment) =>
          isToDecide(payment) ? (
            <Button size="compact-sm" onClick={() => setDeciding(payment)}>
              Decide
            </Button>
          ) : null
        }
      />
      <ResolveDialog payment={deciding} onClose={() => setDeciding(undefined)} />
    </>
  );
}

const admin_columns: Column<AdminPayment>[] = [
  { title: 'Begun', cell: ({ created_at }) => <Time at={created_at} /> },
  { title: 'Organization', cell: ({ org_id }) => <OrgName id={org_id} /> },
  {
    title: 'Ordered',
    is_number: true,
    cell: ({ id, amount, currency }) => (
      <AppLink to={`/payments/${id}`}>
        <Money amount={amount} currency={currency} />
      </AppLink>
    ),
  },
  {
    title: 'Taken',
    is_number: true,
    cell: ({ captured_amount, captured_currency, currency }) => (
      <Money amount={captured_amount} currency={captured_currency ?? currency} />
    ),
  },
  {
    title: 'State',
    cell: (payment) => (
      <Group gap={4}>
        <State {...standing(payment)} />
        {payment.error_code && (
          <Text size="sm" className="wrap">
            {payment.error_code.replaceAll('_', ' ')}
          </Text>
        )}
        {payment.open_disputes > 0 && <State word="disputed" kind="bad" />}
      </Group>
    ),
  },
  { title: 'Payment', cell: ({ id }) => <CopyId value={id} /> },
];
