import { Button, Group, Progress, Select, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Answer } from '../api/client';
import { reading } from '../api/queries';
import { FilterInput } from '../fields/filter-input';
import { oneOf, text, useFilters } from '../fields/filters';
import { RevokeDialog, RotateDialog } from '../keys/change';
import { ChangeDialog } from '../keys/change-key';
import { CreateDialog } from '../keys/create';
import { type NewKey, ShownOnce } from '../keys/shown-once';
import { State } from '../parts/badge';
import { type Column, DataTable } from '../parts/data-table';
import { Money, moneyText } from '../parts/money';
import { Name, PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { may, useMe } from '../session/me';

type Key = Answer<'GET /api/keys'>['tokens'][number];

const sorts = ['-created_at', 'expires_at', 'name'] as const;
const shape = {
  q: text,
  status: oneOf('active', 'expired', 'revoked'),
  type: oneOf('gateway', 'access'),
  sort: oneOf(...sorts),
  cursor: text,
};
type Filters = ReturnType<typeof useFilters<typeof shape>>;

/** Keys: all of the organization for who manages them, else one's own. */
export function Keys() {
  const me = useMe();
  const [filters, set] = useFilters(shape);
  const is_manager = may(me, 'tokens:write');
  const { acting_org } = me;
  const query = useKeys(filters, is_manager);
  const { data: rules } = useQuery({
    ...reading('GET /api/member-keys/:id', { names: { id: acting_org ?? '' } }),
    enabled: !is_manager && acting_org !== null,
  });
  const may_create = is_manager || rules?.enabled === true;
  const [is_creating, { open, close }] = useDisclosure();
  const [made, setMade] = useState<NewKey>();
  const [revoking, setRevoking] = useState<string>();
  const [rotating, setRotating] = useState<string>();
  const [changing, setChanging] = useState<Key>();
  const currency = me.wallets[0]?.currency ?? 'USD';
  return (
    <Page
      title="Keys"
      about={is_manager ? 'All keys of the organization.' : 'Your keys for the gateway.'}
      actions={may_create && <Button onClick={open}>New key</Button>}
    >
      {!is_manager && rules && !rules.enabled && (
        <Text c="dimmed">
          Your organization makes keys for its members. Ask an admin for one, or to let members make
          their own.
        </Text>
      )}
      <FilterBar filters={filters} set={set} is_manager={is_manager} />
      <DataTable
        label="Keys"
        query={query}
        itemsOf={({ tokens }) => tokens}
        keyOf={({ id }) => id}
        columns={columnsOf(currency, is_manager)}
        cursor={filters.cursor}
        onCursor={(cursor) => set({ cursor })}
        empty={<Empty title="No keys">A key lets a program call models through the gateway.</Empty>}
        actions={(token) =>
          token.status === 'active' ? (
            <>
              {(is_manager || rules?.enabled) && (
                <Button size="compact-sm" variant="default" onClick={() => setChanging(token)}>
                  Change
                </Button>
              )}
              {is_manager && (
                <Button size="compact-sm" variant="default" onClick={() => setRotating(token.name)}>
                  Rotate
                </Button>
              )}
              <Button size="compact-sm" variant="default" onClick={() => setRevoking(token.name)}>
                Revoke
              </Button>
            </>
          ) : null
        }
      />
      <CreateDialog opened={is_creating} onClose={close} onMade={setMade} />
      <ShownOnce made={made} onClose={() => setMade(undefined)} />
      <ChangeDialog
        token={changing}
        is_own={!is_manager}
        onClose={() => setChanging(undefined)}
        {...{ currency }}
      />
      <RevokeDialog name={revoking} is_own={!is_manager} onClose={() => setRevoking(undefined)} />
      <RotateDialog name={rotating} onClose={() => setRotating(undefined)} onMade={setMade} />
    </Page>
  );
}

function useKeys(
  { q, status = 'active', type, sort, cursor = 'first' }: Filters[0],
  is_manager: boolean,
) {
  const asked = { q, status, cursor, per_page: 50, sort: sort ?? '-created_at' } as const;
  const all = useQuery({
    ...reading('GET /api/keys', { query: { ...asked, type } }),
    enabled: is_manager,
  });
  const own = useQuery({ ...reading('GET /api/my-keys', { query: asked }), enabled: !is_manager });
  return is_manager ? all : (own as unknown as typeof all);
}

function columnsOf(currency: string, is_manager: boolean): Column<Key>[] {
  const columns: Column<Key>[] = [
    {
      title: 'Name',
      cell: ({ name, prefix }) => (
        <span className="wrap">
          {name} <br />
          <code>{prefix}…</code>
        </span>
      ),
    },
    {
      title: 'Of',
      cell: ({ user_id, team_id }) => {
        if (user_id) return <PersonName id={user_id} />;
        return team_id ? <Name id={team_id} /> : <span>the organization</span>;
      },
    },
    { title: 'Budget', cell: (key) => <Budget token={key} currency={currency} /> },
    {
      title: 'Models',
      cell: ({ allowed_models }) => (
        <span className="wrap">{allowed_models?.join(', ') ?? 'every model'}</span>
      ),
    },
    { title: 'Ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
    { title: 'Last used', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
    {
      title: 'State',
      cell: ({ status }) => <State word={status} kind={status === 'active' ? 'good' : 'neutral'} />,
    },
  ];
  return is_manager ? columns : columns.filter(({ title }) => title !== 'Of');
}

function Budget({ token, currency }: { token: Key; currency: string }) {
  if (token.token_type === 'access') return <span>–</span>;
  const used = token.budget_used ?? token.spent;
  if (token.max_budget === null)
    return (
      <span>
        <Money amount={token.spent} currency={currency} /> spent
      </span>
    );
  const share = token.max_budget === 0 ? 100 : Math.min(100, (used / token.max_budget) * 100);
  const words = `${moneyText(used, currency)} of ${moneyText(token.max_budget, currency)}`;
  return (
    <div>
      <Text size="sm" className="figures">
        <Money amount={used} currency={currency} /> of{' '}
        <Money amount={token.max_budget} currency={currency} />
        {token.budget_window ? ` a ${token.budget_window}` : ''}
      </Text>
      <Progress value={share} size="sm" aria-label={words} color={share >= 90 ? 'red' : 'indigo'} />
    </div>
  );
}

function FilterBar({
  filters,
  set,
  is_manager,
}: {
  filters: Filters[0];
  set: Filters[1];
  is_manager: boolean;
}) {
  return (
    <Group gap="xs" align="flex-end">
      <FilterInput label="Name" value={filters.q} onFilter={(q) => set({ q })} w={200} />
      <Select
        label="State"
        data={['active', 'expired', 'revoked']}
        value={filters.status ?? 'active'}
        onChange={(value) => set({ status: (value ?? 'active') as 'active' })}
        allowDeselect={false}
        w={120}
      />
      {is_manager && (
        <Select
          label="For"
          placeholder="anything"
          data={[
            { value: 'gateway', label: 'model calls' },
            { value: 'access', label: 'the API' },
          ]}
          value={filters.type ?? null}
          onChange={(value) => set({ type: (value ?? undefined) as 'gateway' | undefined })}
          clearable
          clearButtonProps={{ 'aria-label': 'Show keys for anything' }}
          w={140}
        />
      )}
      <Select
        label="Order"
        data={[
          { value: '-created_at', label: 'newest first' },
          { value: 'expires_at', label: 'ends soonest' },
          { value: 'name', label: 'by name' },
        ]}
        value={filters.sort ?? '-created_at'}
        onChange={(value) => set({ sort: (value ?? '-created_at') as 'name' })}
        allowDeselect={false}
        w={150}
      />
    </Group>
  );
}
