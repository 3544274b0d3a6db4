import { Button, Group, Select } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { FilterInput } from '../fields/filter-input';
import { oneOf, text, useFilters } from '../fields/filters';
import { State } from '../parts/badge';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Empty, Failure } from '../parts/states';
import { may, useMe } from '../session/me';
import { useCredits, useThreshold } from '../session/rules';
import { useBank } from '../wallets/bank';
import { walletCsv } from '../wallets/csv';
import { type Move, MoveDialog } from '../wallets/move';
import { Recipient } from '../wallets/recipient';
import { WalletTree } from '../wallets/tree';
import { kinds, standing, type WalletRow } from '../wallets/words';

const shape = {
  q: text,
  status: oneOf('healthy', 'low', 'depleted', 'in_debt'),
  owner_type: oneOf('team', 'user'),
  /** Teams whose people the tree shows. */
  open: text,
  cursor: text,
};

/** Every wallet as a tree; as a list once something is sought. */
export function Wallets() {
  const me = useMe();
  const [filters, set] = useFilters(shape);
  const navigate = useNavigate();
  const bills = may(me, 'org:billing');
  const bank = useBank();
  const threshold = useThreshold(me.acting_org);
  const { may_credit } = useCredits();
  const { q, status, owner_type, cursor = 'first' } = filters;
  const is_list = (q ?? status ?? owner_type) !== undefined;
  const asked = { q, status, owner_type };
  const query = useQuery({
    ...reading('GET /api/wallets', { query: { ...asked, cursor, per_page: 50 } }),
    refetchInterval: 30_000,
    enabled: is_list,
  });
  const read: ReadPart<WalletRow> = async (place = 'first') => {
    const page = { cursor: place, per_page: PART_ROWS };
    const answer = await call('GET /api/wallets', { query: { ...asked, ...page } });
    return { items: answer.wallets, next: nextOf(answer) };
  };
  const opened = new Set(filters.open?.split('~'));
  const turn = (team_id: string) => {
    if (!opened.delete(team_id)) opened.add(team_id);
    set({ open: [...opened].join('~') });
  };
  const [dialog, setDialog] = useState<{ move: Move; wallet: WalletRow }>();
  const [is_giving, setGiving] = useState(false);
  const actions = bills
    ? (wallet: WalletRow) => <Moves {...{ wallet, may_credit, setDialog }} />
    : undefined;
  return (
    <Page
      title="Wallets"
      about="Calls are paid by the person, else the team, else the organization."
      actions={bills && <Button onClick={() => setGiving(true)}>Give money to…</Button>}
    >
      <Filters filters={filters} set={set}>
        <CsvButton file="wallets" read={read} columns={walletCsv(threshold)} />
      </Filters>
      {is_list ? (
        <DataTable
          label="Wallets"
          query={query}
          itemsOf={({ wallets }) => wallets}
          keyOf={({ wallet_id }) => wallet_id}
          columns={columnsOf(threshold)}
          cursor={filters.cursor}
          onCursor={(next) => set({ cursor: next })}
          onOpen={({ wallet_id }) => void navigate({ to: `/wallets/${wallet_id}` })}
          empty={
            <Empty title="No wallets here">
              {bills
                ? 'A team or person has a wallet once it is given money: press “Give money to…”. Without one, the organization pays.'
                : 'Only your own wallets and those of your teams are shown to you.'}
            </Empty>
          }
          actions={actions}
        />
      ) : bank.error && bank.data === undefined ? (
        <Failure error={bank.error} retry={() => void bank.refetch()} />
      ) : (
        <WalletTree
          {...{ threshold, actions, opened, turn, sees_all: bills }}
          bank={bank.data?.wallets[0]}
        />
      )}
      <Recipient
        opened={is_giving}
        org_id={me.acting_org ?? ''}
        bank={bank.data?.wallets[0]}
        onClose={() => setGiving(false)}
        onFound={(wallet) => {
          setGiving(false);
          setDialog({ move: 'allocate', wallet });
        }}
      />
      <MoveDialog
        move={dialog?.move}
        wallet={dialog?.wallet}
        bank={bank.data?.wallets[0]}
        onClose={() => setDialog(undefined)}
      />
    </Page>
  );
}

function Moves({
  wallet,
  may_credit,
  setDialog,
}: {
  wallet: WalletRow;
  may_credit: boolean;
  setDialog: (dialog: { move: Move; wallet: WalletRow }) => void;
}) {
  if (wallet.owner_type === 'organization')
    return may_credit ? (
      <Button
        size="compact-sm"
        variant="default"
        onClick={() => setDialog({ move: 'credit', wallet })}
      >
        Credit by hand
      </Button>
    ) : null;
  return (
    <>
      <Button size="compact-sm" onClick={() => setDialog({ move: 'allocate', wallet })}>
        Give
      </Button>
      <Button
        size="compact-sm"
        variant="default"
        onClick={() => setDialog({ move: 'reclaim', wallet })}
      >
        Take back
      </Button>
    </>
  );
}

function columnsOf(threshold: number | undefined): Column<WalletRow>[] {
  return [
    {
      title: 'Owner',
      cell: ({ wallet_id, owner_name }) => (
        <AppLink to={`/wallets/${wallet_id}`}>{owner_name}</AppLink>
      ),
    },
    { title: 'Kind', cell: ({ owner_type }) => kinds[owner_type] },
    {
      title: 'Can be spent',
      is_number: true,
      cell: ({ balance, currency }) => <Money amount={balance} currency={currency} />,
    },
    {
      title: 'Held',
      is_number: true,
      cell: ({ reserved, currency }) => <Money amount={reserved} currency={currency} />,
    },
    { title: 'State', cell: (wallet) => <State {...standing(wallet, threshold)} /> },
  ];
}

type FilterProps = {
  filters: ReturnType<typeof useFilters<typeof shape>>[0];
  set: ReturnType<typeof useFilters<typeof shape>>[1];
};

function Filters({ filters, set, children }: FilterProps & { children: ReactNode }) {
  return (
    <Group gap="xs" align="flex-end">
      <Select
        label="Of"
        data={[
          { value: 'team', label: 'teams' },
          { value: 'user', label: 'people' },
        ]}
        placeholder="all, as a tree"
        value={filters.owner_type ?? null}
        onChange={(value) => set({ owner_type: (value ?? undefined) as 'team' | undefined })}
        clearable
        clearButtonProps={{ 'aria-label': 'Show wallets of all' }}
        w={150}
      />
      <Select
        label="State"
        placeholder="any"
        data={['healthy', 'low', 'depleted', 'in_debt'].map((value) => ({
          value,
          label: value.replace('_', ' '),
        }))}
        value={filters.status ?? null}
        onChange={(value) => set({ status: (value ?? undefined) as 'low' | undefined })}
        clearable
        clearButtonProps={{ 'aria-label': 'Show wallets in any state' }}
        w={140}
      />
      <FilterInput label="Name" value={filters.q} onFilter={(q) => set({ q })} w={200} />
      {children}
    </Group>
  );
}
