import { Button, CloseIcon, Group, Select, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import { FilterInput } from '../fields/filter-input';
import { oneOf, text, useFilters } from '../fields/filters';
import { RevokeDialog, RotateDialog } from '../keys/change';
import { ChangeDialog } from '../keys/change-key';
import { type Key, keyColumns, keyCsv } from '../keys/columns';
import { CreateDialog } from '../keys/create';
import { type NewKey, ShownOnce } from '../keys/shown-once';
import { CsvButton } from '../parts/csv';
import { DataTable } from '../parts/data-table';
import { useNamesOf } from '../parts/names';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { may, useCurrency, useMe } from '../session/me';

/** Who may not read events hears of no spending: the page looks by itself. */
const LOOK_MS = 30_000;
const sorts = ['-created_at', 'expires_at', 'name'] as const;
const shape = {
  q: text,
  status: oneOf('active', 'expired', 'revoked'),
  type: oneOf('gateway', 'access'),
  sort: oneOf(...sorts),
  agent_id: text,
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
  const currency = useCurrency();
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
      <FilterBar filters={filters} set={set} is_manager={is_manager}>
        <CsvButton file="keys" read={reader(filters, is_manager)} columns={keyCsv(currency)} />
      </FilterBar>
      <DataTable
        label="Keys"
        query={query}
        itemsOf={({ tokens }) => tokens}
        keyOf={({ id }) => id}
        columns={keyColumns(currency, is_manager)}
        cursor={filters.cursor}
        onCursor={(cursor) => set({ cursor })}
        empty={<Empty title="No keys">A key lets a program call models through the gateway.</Empty>}
        actions={(token) =>
          token.status === 'active' ? (
            <>
              {(is_manager || (rules?.enabled && token.created_by === me.user?.user_id)) && (
                <>
                  <Button size="compact-sm" variant="default" onClick={() => setChanging(token)}>
                    Change
                  </Button>
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => setRotating(token.name)}
                  >
                    Rotate
                  </Button>
                </>
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
      <RotateDialog
        name={rotating}
        is_own={!is_manager}
        onClose={() => setRotating(undefined)}
        onMade={setMade}
      />
    </Page>
  );
}

/** What the filters ask for: of all keys, and of one's own. */
function askedOf({ q, status = 'active', type, sort = '-created_at', agent_id }: Filters[0]) {
  const own = { q, status, sort } as const;
  return { own, all: { ...own, type, agent_id } };
}

function useKeys(filters: Filters[0], is_manager: boolean) {
  const asked = askedOf(filters);
  const page = { cursor: filters.cursor ?? 'first', per_page: 50 };
  const all = useQuery({
    ...reading('GET /api/keys', { query: { ...asked.all, ...page } }),
    refetchInterval: LOOK_MS,
    enabled: is_manager,
  });
  const own = useQuery({
    ...reading('GET /api/my-keys', { query: { ...asked.own, ...page } }),
    refetchInterval: LOOK_MS,
    enabled: !is_manager,
  });
  return is_manager ? all : (own as unknown as typeof all);
}

function reader(filters: Filters[0], is_manager: boolean): ReadPart<Key> {
  const asked = askedOf(filters);
  return async (cursor = 'first') => {
    const page = { cursor, per_page: PART_ROWS };
    const answer = is_manager
      ? await call('GET /api/keys', { query: { ...asked.all, ...page } })
      : await call('GET /api/my-keys', { query: { ...asked.own, ...page } });
    return { items: answer.tokens as readonly Key[], next: nextOf(answer) };
  };
}

function FilterBar({
  filters,
  set,
  is_manager,
  children,
}: {
  filters: Filters[0];
  set: Filters[1];
  is_manager: boolean;
  children: ReactNode;
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
      {is_manager && filters.agent_id && (
        <OfAgent id={filters.agent_id} onClear={() => set({ agent_id: undefined })} />
      )}
      {children}
    </Group>
  );
}

/** Says that only keys of one agent are shown; pressed, it shows all again. */
function OfAgent({ id, onClear }: { id: string; onClear: () => void }) {
  const name = useNamesOf([id]).get(id) ?? id;
  return (
    <Button
      variant="light"
      className="wrap"
      aria-label={`Agent: ${name}, take this filter away`}
      onClick={onClear}
      rightSection={<CloseIcon size="0.8em" aria-hidden="true" />}
    >
      {`Agent: ${name}`}
    </Button>
  );
}
