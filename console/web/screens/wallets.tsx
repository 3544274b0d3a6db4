import { Button, Card, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { reading } from '../api/queries';
import { State } from '../parts/badge';
import { type Column, DataTable } from '../parts/data-table';
import { oneOf, text, useFilters } from '../parts/filters';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Empty, Failure } from '../parts/states';
import { may, useMe } from '../session/me';
import { type Move, MoveDialog } from '../wallets/move';
import { kinds, standing, type WalletRow } from '../wallets/words';

const shape = {
  q: text,
  status: oneOf('healthy', 'low', 'depleted', 'in_debt'),
  owner_type: oneOf('team', 'user'),
  cursor: text,
};

/** Every wallet: the organization's on top, below it those of its teams and people. */
export function Wallets() {
  const me = useMe();
  const [filters, set] = useFilters(shape);
  const navigate = useNavigate();
  const bills = may(me, 'org:billing');
  const bank = useBank();
  const threshold = useThreshold();
  const query = useQuery({
    ...reading('GET /api/wallets', {
      query: {
        ...filters,
        owner_type: filters.owner_type ?? 'team',
        cursor: filters.cursor ?? 'first',
        per_page: 50,
      },
    }),
    refetchInterval: 30_000,
  });
  const [dialog, setDialog] = useState<{ move: Move; wallet: WalletRow }>();
  return (
    <Page
      title="Wallets"
      about="Calls are paid by the person, else the team, else the organization."
    >
      {bank.error ? (
        <Failure error={bank.error} />
      ) : (
        <Bank
          wallet={bank.data?.wallets[0]}
          threshold={threshold}
          onCredit={bills ? (wallet) => setDialog({ move: 'credit', wallet }) : undefined}
        />
      )}
      <Filters filters={filters} set={set} />
      <DataTable
        label={filters.owner_type === 'user' ? "People's wallets" : "Teams' wallets"}
        query={query}
        itemsOf={({ wallets }) => wallets}
        keyOf={({ wallet_id }) => wallet_id}
        columns={columnsOf(threshold)}
        cursor={filters.cursor}
        onCursor={(cursor) => set({ cursor })}
        onOpen={({ wallet_id }) => void navigate({ to: `/wallets/${wallet_id}` })}
        empty={
          <Empty title="No wallets here">
            A team or person has a wallet once it is given money. Without one, the organization
            pays.
          </Empty>
        }
        actions={bills ? (wallet) => <Moves {...{ wallet, setDialog }} /> : undefined}
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

/** The organization's wallet. */
export function useBank() {
  const query = { owner_type: 'organization', per_page: 1 } as const;
  return useQuery({ ...reading('GET /api/wallets', { query }), refetchInterval: 30_000 });
}

/** What counts as low where a wallet says nothing of its own. */
export function useThreshold(): number | undefined {
  const { acting_org } = useMe();
  const { data } = useQuery({
    ...reading('GET /api/wallet-settings/:id', { names: { id: acting_org ?? '' } }),
    enabled: acting_org !== null,
    staleTime: 300_000,
  });
  return data?.low_balance_threshold;
}

function Moves({
  wallet,
  setDialog,
}: {
  wallet: WalletRow;
  setDialog: (dialog: { move: Move; wallet: WalletRow }) => void;
}) {
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

function Bank({
  wallet,
  threshold,
  onCredit,
}: {
  wallet: WalletRow | undefined;
  threshold: number | undefined;
  onCredit: ((wallet: WalletRow) => void) | undefined;
}) {
  if (wallet === undefined) return null;
  return (
    <Card withBorder>
      <Group justify="space-between" align="flex-start">
        <div>
          <Text c="dimmed">
            <AppLink to={`/wallets/${wallet.wallet_id}`}>{wallet.owner_name}</AppLink>, the
            organization
          </Text>
          <Money amount={wallet.balance} currency={wallet.currency} size="1.75rem" fw={700} />
          <Text c="dimmed">
            and <Money amount={wallet.reserved} currency={wallet.currency} /> held for calls under
            way
          </Text>
        </div>
        <Stack gap="xs" align="flex-end">
          <State {...standing(wallet, threshold)} />
          {onCredit && (
            <Button size="xs" variant="default" onClick={() => onCredit(wallet)}>
              Credit by hand
            </Button>
          )}
        </Stack>
      </Group>
    </Card>
  );
}

function columnsOf(threshold: number | undefined): Column<WalletRow>[] {
  return [
    {
      title: 'Whose',
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

function Filters({ filters, set }: FilterProps) {
  const search = useDebouncedCallback((q: string) => set({ q }), 250);
  return (
    <Group gap="xs" align="flex-end">
      <Select
        label="Of"
        data={[
          { value: 'team', label: 'teams' },
          { value: 'user', label: 'people' },
        ]}
        value={filters.owner_type ?? 'team'}
        onChange={(value) => set({ owner_type: (value ?? 'team') as 'team' })}
        allowDeselect={false}
        w={120}
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
      <TextInput
        label="Name"
        defaultValue={filters.q ?? ''}
        onChange={(event) => search(event.currentTarget.value)}
        w={200}
      />
    </Group>
  );
}
