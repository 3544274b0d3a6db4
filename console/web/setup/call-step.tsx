import { Group, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { type NewKey, ShownOnce } from '../keys/shown-once';
import { State } from '../parts/badge';
import { LinkButton } from '../parts/link';
import { useMe } from '../session/me';
import { StepForm } from './step-form';

/** The fifth: a key, and the first call with it, which is awaited here. */
export function CallStep() {
  const me = useMe();
  const [name, setName] = useState('first key');
  const [made, setMade] = useState<NewKey>();
  const [since, setSince] = useState<string>();
  const { data } = useQuery({
    ...reading('GET /api/events', {
      query: { type: 'request.completed', limit: 1, ...(since ? { since } : {}) },
    }),
    enabled: since !== undefined && me.acting_org !== null,
    refetchInterval: 2_000,
  });
  const first = data?.events[0];
  const submit = async (idempotency_key: string) => {
    const body = { name: name.trim(), token_type: 'gateway' as const };
    const { key } = await call('POST /api/keys', { body, idempotency_key });
    setSince(new Date(serverNow() - 60_000).toISOString());
    setMade({ name: body.name, key, is_gateway: true, allowed_models: null });
  };
  return (
    <Stack>
      {first ? (
        <Group>
          <State word="the first call has arrived" kind="good" />
          <Text>It works: the wallet paid for the call, and the ledger shows it.</Text>
          {first.request_id && (
            <LinkButton to={`/requests/${first.request_id}`} variant="default">
              See what it cost
            </LinkButton>
          )}
          <LinkButton to="/people" variant="default">
            Add people
          </LinkButton>
        </Group>
      ) : (
        since && <Text role="status">Waiting for the first call with this key…</Text>
      )}
      <StepForm
        label="Create key"
        is_ready={name.trim() !== ''}
        submit={submit}
        onDone={() => undefined}
      >
        <Text>A program calls models with a gateway key. You get the call to try with it.</Text>
        <TextInput
          label="Name of the key"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          maxLength={200}
          required
        />
      </StepForm>
      <ShownOnce made={made} onClose={() => setMade(undefined)} />
    </Stack>
  );
}
