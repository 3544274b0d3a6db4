import { Button, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, call, send } from '../api/client';
import { reading, refresh } from '../api/queries';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { listed } from '../parts/lists';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { signOut } from '../session/leave';
import { useMe } from '../session/me';

type Session = Answer<'GET /api/sessions'>['sessions'][number];

const methods = {
  access_key: 'an access key',
  one_time_code: 'a one-time code',
  oidc: 'the identity provider',
} as const;

/** Where the person is signed in, and how to end that: here, elsewhere, everywhere. */
export function Sessions() {
  const me = useMe();
  const [is_leaving, setLeaving] = useState(false);
  const query = useQuery({
    ...reading('GET /api/sessions'),
    enabled: me.user !== null,
  });
  if (me.user === null)
    return (
      <Empty title="This is no person's session">
        An operator's session ends after an hour without use, after twelve in all, and by signing
        out.
      </Empty>
    );
  const end = (session: Session) =>
    act(async () => {
      await call('DELETE /api/sessions/:id', { names: { id: session.id } });
      await refresh('/api/sessions');
    });
  return (
    <>
      <Group justify="space-between" mb="sm">
        <Text c="dimmed">A session ends after an hour without use, and after twelve in all.</Text>
        <Button color="red.9" onClick={() => setLeaving(true)}>
          Sign out everywhere
        </Button>
      </Group>
      <DataTable
        label="My sessions"
        query={listed(query)}
        itemsOf={({ sessions }) => sessions}
        keyOf={({ id }) => id}
        columns={[
          { title: 'Signed in by', cell: ({ method }) => methods[method] },
          { title: 'Since', cell: ({ created_at }) => <Time at={created_at} /> },
          { title: 'Last used', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
          { title: 'Ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
          {
            title: 'Which',
            cell: ({ is_current }) =>
              is_current ? (
                <State word="this one" kind="good" />
              ) : (
                <State word="elsewhere" kind="neutral" />
              ),
          },
        ]}
        empty={<Empty title="No session" />}
        actions={(session) =>
          session.is_current ? null : (
            <Button size="compact-sm" variant="default" onClick={() => void end(session)}>
              End
            </Button>
          )
        }
      />
      <FormModal
        title="Sign out everywhere"
        opened={is_leaving}
        onClose={() => setLeaving(false)}
        submit={signOutEverywhere}
        label="Sign out everywhere"
        is_dangerous
      >
        <Text>
          All your sessions end at once, this one too. Keys of programs go on; revoke those on the
          page of keys.
        </Text>
      </FormModal>
    </>
  );
}

async function signOutEverywhere(): Promise<void> {
  // The key of this session's chat lives by itself.
  await send('DELETE', '/api/chat/key');
  await call('DELETE /api/sessions');
  // The session is over; this takes its cookie away.
  await signOut();
}
