import {
  Alert,
  Button,
  Code,
  CopyButton,
  Group,
  List,
  MultiSelect,
  Select,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { Dialog } from '../parts/dialog';
import { FormModal } from '../parts/form-modal';
import { useMe } from '../session/me';
import { type Channel, channels, type Destination, type Kind, kindsOf } from './notice-words';

const LIST = '/api/notice-destinations';

/** Makes a destination; the secret of a webhook is shown once, by `onSecret`. */
export function AddDestination({
  opened,
  onClose,
  onSecret,
}: {
  opened: boolean;
  onClose: () => void;
  onSecret: (secret: string) => void;
}) {
  const [name, setName] = useState('');
  const [channel, setChannel] = useState<Channel>('slack');
  const [url, setUrl] = useState('');
  const [told, setTold] = useState<string[]>([]);
  useEffect(() => {
    if (!opened) return;
    setName('');
    setUrl('');
    setTold([]);
  }, [opened]);
  const kinds = kindsOf(useMe().acting_org);
  const has_url = channel !== 'email';
  const submit = async (idempotency_key: string) => {
    const body = {
      name: name.trim(),
      channel,
      ...(has_url ? { url: url.trim() } : {}),
      kinds: (told.length > 0 ? told : kinds.map(({ value }) => value)) as Kind[],
    };
    const { secret } = await call('POST /api/notice-destinations', { body, idempotency_key });
    void refresh(LIST);
    onClose();
    if (secret) onSecret(secret);
  };
  return (
    <FormModal
      title="A new destination"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Make it"
      is_ready={name.trim() !== '' && (!has_url || url.trim() !== '')}
    >
      <TextInput
        label="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        data-autofocus
        required
      />
      <Select
        label="By"
        data={[...channels]}
        value={channel}
        onChange={(value) => setChannel((value ?? 'slack') as Channel)}
        allowDeselect={false}
      />
      {has_url ? (
        <TextInput
          label="Address"
          description={
            channel === 'webhook'
              ? 'Messages are signed; the secret is shown once.'
              : 'The incoming webhook of the channel. It is kept secret.'
          }
          value={url}
          onChange={(event) => setUrl(event.currentTarget.value)}
          required
        />
      ) : (
        <Text size="sm">Addresses are added next; each confirms itself by a code.</Text>
      )}
      <MultiSelect
        label="Notifies about"
        placeholder={told.length === 0 ? 'everything' : ''}
        data={[...kinds]}
        value={told}
        onChange={setTold}
        clearable
        clearButtonProps={{ 'aria-label': 'Everything' }}
      />
    </FormModal>
  );
}

/** The secret of a webhook, right after it was made. */
export function SecretOnce({
  secret,
  onClose,
}: {
  secret: string | undefined;
  onClose: () => void;
}) {
  return (
    <Dialog
      opened={secret !== undefined}
      onClose={onClose}
      title="The secret of the webhook"
      is_closable={false}
    >
      <Stack>
        <Alert color="yellow" title="Copy it now">
          It is shown only here. The receiver verifies messages with it, as Standard Webhooks say.
        </Alert>
        <Code block className="wrap">
          {secret}
        </Code>
        <Group justify="flex-end">
          <CopyButton value={secret ?? ''}>
            {({ copied, copy }) => (
              <Button onClick={copy}>{copied ? 'Copied' : 'Copy the secret'}</Button>
            )}
          </CopyButton>
          <Button variant="default" onClick={onClose}>
            I have copied it
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}

/** The addresses of a mail destination; each gets notices once its code is here. */
export function Recipients({
  destination,
  onClose,
}: {
  destination: Destination | undefined;
  onClose: () => void;
}) {
  return (
    <Dialog
      opened={destination !== undefined}
      onClose={onClose}
      title={`Addresses of ${destination?.name ?? ''}`}
    >
      {destination && <Addresses destination={destination} />}
    </Dialog>
  );
}

function Addresses({ destination: { id, recipients } }: { destination: Destination }) {
  const [address, setAddress] = useState('');
  const [codes, setCodes] = useState<Record<string, string>>({});
  const change = (work: () => Promise<unknown>) =>
    act(async () => {
      await work();
      await refresh(LIST, '/api/notice-messages');
    });
  return (
    <Stack>
      <List listStyleType="none" spacing="sm">
        {recipients.map((one) => (
          <List.Item key={one.id}>
            <Group gap="xs" align="flex-end">
              <Text className="wrap">{one.address}</Text>
              {one.confirmed_at ? (
                <State word="confirmed" kind="good" />
              ) : (
                <>
                  <TextInput
                    label={`Code mailed to ${one.address}`}
                    value={codes[one.id] ?? ''}
                    onChange={(event) =>
                      setCodes({ ...codes, [one.id]: event.currentTarget.value })
                    }
                  />
                  <Button
                    variant="default"
                    disabled={!codes[one.id]}
                    onClick={() =>
                      void change(() =>
                        call('POST /api/notice-recipients/:id/confirm', {
                          names: { id: one.id },
                          body: { code: (codes[one.id] ?? '').trim() },
                        }),
                      )
                    }
                  >
                    Confirm
                  </Button>
                </>
              )}
              <Button
                variant="default"
                aria-label={`Remove ${one.address}`}
                onClick={() =>
                  void change(() =>
                    call('DELETE /api/notice-recipients/:id', { names: { id: one.id } }),
                  )
                }
              >
                Remove
              </Button>
            </Group>
          </List.Item>
        ))}
      </List>
      <Group align="flex-end" gap="xs">
        <TextInput
          label="Another address"
          type="email"
          value={address}
          onChange={(event) => setAddress(event.currentTarget.value)}
          flex={1}
        />
        <Button
          disabled={address.trim() === ''}
          onClick={() =>
            void change(async () => {
              await call('POST /api/notice-destinations/:id/recipients', {
                names: { id },
                body: { address: address.trim() },
              });
              notifications.show({ message: `A code was mailed to ${address.trim()}.` });
              setAddress('');
            })
          }
        >
          Mail a code
        </Button>
      </Group>
    </Stack>
  );
}
