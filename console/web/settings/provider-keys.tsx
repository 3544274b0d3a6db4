import { Button, Group, Stack, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reading } from '../api/queries';
import { State } from '../parts/badge';
import { type Column, DataTable } from '../parts/data-table';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import {
  AddProviderKey,
  ChangeProviderKey,
  type ProviderKey,
  RevokeProviderKey,
  RotateProviderKey,
} from './provider-key-dialogs';

const KEYS_MAX = 200;

const columns: Column<ProviderKey>[] = [
  { title: 'Provider', cell: ({ provider }) => <span className="wrap">{provider}</span> },
  { title: 'Key', cell: ({ hint }) => <code className="nowrap">{`…${hint}`}</code> },
  { title: 'Factor', cell: ({ price_factor }) => `× ${price_factor}`, is_number: true },
  {
    title: 'If it is refused',
    cell: ({ own_keys }) => (own_keys === 'only' ? 'the call fails' : 'the platform serves'),
  },
  {
    title: 'Kept since',
    cell: ({ created_at, rotated_at }) => <Time at={rotated_at ?? created_at} />,
  },
  { title: 'Last used', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
  {
    title: 'State',
    cell: ({ revoked_at }) =>
      revoked_at === null ? (
        <State word="in use" kind="good" />
      ) : (
        <State word="revoked" kind="neutral" />
      ),
  },
];

/** The organization's own keys of providers: by them its calls are served. */
export function ProviderKeys() {
  const query = useQuery(reading('GET /api/provider-keys', { query: { per_page: KEYS_MAX } }));
  const [is_adding, adding] = useDisclosure();
  const [rotating, setRotating] = useState<ProviderKey>();
  const [changing, setChanging] = useState<ProviderKey>();
  const [revoking, setRevoking] = useState<ProviderKey>();
  return (
    <Stack>
      <Group justify="space-between" align="flex-start">
        <Text c="dimmed" maw={560}>
          Calls to a provider of which you keep a key here are served by it, and cost the list price
          times its factor.
        </Text>
        <Button onClick={adding.open}>Bring a key</Button>
      </Group>
      <DataTable
        label="Keys of providers"
        query={query}
        itemsOf={({ provider_keys }) => provider_keys}
        keyOf={({ id }) => id}
        columns={columns}
        empty={
          <Empty title="No own keys">
            Calls are served by the keys of the platform, at list prices.
          </Empty>
        }
        actions={(one) =>
          one.revoked_at === null ? (
            <>
              <Button size="compact-sm" variant="default" onClick={() => setChanging(one)}>
                Change
              </Button>
              <Button size="compact-sm" variant="default" onClick={() => setRotating(one)}>
                Rotate
              </Button>
              <Button size="compact-sm" variant="default" onClick={() => setRevoking(one)}>
                Revoke
              </Button>
            </>
          ) : null
        }
      />
      <AddProviderKey opened={is_adding} onClose={adding.close} />
      <RotateProviderKey of={rotating} onClose={() => setRotating(undefined)} />
      <ChangeProviderKey of={changing} onClose={() => setChanging(undefined)} />
      <RevokeProviderKey of={revoking} onClose={() => setRevoking(undefined)} />
    </Stack>
  );
}
