import { Button, Menu, ScrollArea, Text, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { send, showNext } from '../api/client';
import { queries, reading } from '../api/queries';
import { act } from '../parts/act';
import type { Me } from '../session/me';

/** The organization that is looked at, and the others that the person could look at. */
export function OrgSwitcher({ me }: { me: Me }) {
  if (me.is_operator) return <OperatorSwitcher me={me} />;
  const here = me.memberships.find(({ org_id }) => org_id === me.org_id);
  const others = me.memberships.filter(({ org_id }) => org_id !== me.org_id);
  if (others.length === 0)
    return (
      <Text c="dimmed" truncate maw={160}>
        {here?.name}
      </Text>
    );
  return (
    <Menu>
      <Menu.Target>
        <Button variant="default" size="xs">
          {here?.name}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {others.map(({ org_id, name }) => (
          <Menu.Item key={org_id} component="a" href={`/login?org=${encodeURIComponent(org_id)}`}>
            Sign in to {name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

/** Operators look at any organization; what they then do is done there in the platform's name. */
function OperatorSwitcher({ me }: { me: Me }) {
  const [q, setQ] = useState('');
  const [wanted] = useDebouncedValue(q, 200);
  const { data } = useQuery(
    reading('GET /api/organizations', { query: { q: wanted, per_page: 20, sort: 'name' } }),
  );
  const { data: chosen } = useQuery({
    ...reading('GET /api/organizations/:id', { names: { id: me.acting_org ?? '' } }),
    enabled: me.acting_org !== null,
  });
  const choose = async (org_id: string | null) => {
    await send('PUT', '/api/session/org', { body: { org_id } });
    showNext(org_id ?? '');
    queries.clear();
    location.assign('/');
  };
  const label = me.acting_org === null ? 'Choose an organization' : (chosen?.name ?? '…');
  return (
    <Menu width={260}>
      <Menu.Target>
        <Button variant="default" size="xs" miw={0} classNames={{ label: 'ellipsis' }}>
          {label}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <TextInput
          size="xs"
          p="xs"
          aria-label="Find an organization"
          placeholder="Find by name"
          value={q}
          onChange={(event) => setQ(event.currentTarget.value)}
        />
        <ScrollArea.Autosize mah={300}>
          {data?.organizations.map(({ id, name }) => (
            <Menu.Item key={id} onClick={() => void act(() => choose(id))}>
              {name}
            </Menu.Item>
          ))}
          {me.acting_org !== null && (
            <Menu.Item onClick={() => void act(() => choose(null))}>
              None: the platform alone
            </Menu.Item>
          )}
        </ScrollArea.Autosize>
      </Menu.Dropdown>
    </Menu>
  );
}
