import { Group, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { type NewKey, ShownOnce } from '../keys/shown-once';
import { State } from '../parts/badge';
import { LinkButton } from '../parts/link';
import { completed } from '../requests/words';
import { useMe } from '../session/me';
import { StepForm } from './step-form';

/** The fifth: a key, and the first call with it, which is awaited here. */
export function CallStep() {
  const me = useMe();
  const [name, setName] = useState('first key');
  const [made, setMade] = useState<NewKey>();
  const [awaited, setAwaited] = useState<{ key_id: string; since: string }>();
  const { data } = useQuery({
    ...reading('GET /api/events', {
      query: { type: 'request.completed', limit: 200, since: awaited?.since },
    }),
    enabled: awaited !== undefined && me.acting_org !== null,
    refetchInterval: 2_000,
  });
  // Of this key alone: others of the organization may be calling.
  const calls = (data?.events ?? [])
    .filter(({ payload }) => keyIdOf(payload) === awaited?.key_id)
    .map(({ request_id, payload }) => ({ request_id, ...completed(payload) }));
  const paid = calls.find(({ kind }) => kind === 'good');
  const submit = async (idempotency_key: string) => {
    const body = { name: name.trim(), token_type: 'gateway' as const };
    const { id, key } = await call('POST /api/keys', { body, idempotency_key });
    setAwaited({ key_id: id, since: new Date(serverNow() - 60_000).toISOString() });
    setMade({ name: body.name, key, is_gateway: true, allowed_models: null });
  };
  return (
    <Stack>
      {awaited && (paid ? <Paid {...paid} /> : <Waiting failed={calls[0]} />)}
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

interface Ended {
  request_id: string | null;
  detail?: string;
}

function Paid({ request_id }: Ended) {
  return (
    <Group>
      <State word="the first call has arrived" kind="good" />
      <Text>It works: the wallet paid for the call, and the ledger shows it.</Text>
      {request_id && (
        <LinkButton to={`/requests/${request_id}`} variant="default">
          See what it cost
        </LinkButton>
      )}
      <LinkButton to="/people" variant="default">
        Add people
      </LinkButton>
    </Group>
  );
}

/** Until a call has been paid for; with the last one if it failed. */
function Waiting({ failed }: { failed: Ended | undefined }) {
  if (failed === undefined)
    return <Text role="status">Waiting for the first call with this key…</Text>;
  const { request_id, detail } = failed;
  return (
    <Group>
      <State word="the call has failed" kind="bad" />
      <Text role="status">The call arrived and failed: {detail}. Waiting for the next one…</Text>
      {request_id && (
        <LinkButton to={`/requests/${request_id}`} variant="default">
          See what happened
        </LinkButton>
      )}
    </Group>
  );
}

/** Whose key a call was made with; undefined: its gateway cannot say. */
function keyIdOf({ identity_context }: Record<string, unknown>): unknown {
  return (identity_context as { key_id?: unknown } | undefined)?.key_id;
}
