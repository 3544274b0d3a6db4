import { Button, Group, PasswordInput, Select, Stack, Switch, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { Failure, LoadingRows } from '../parts/states';
import { providerWords } from './words';

type Config = Answer<'GET /api/admin/payments/config'>;
type Name = 'payment_provider_a' | 'payment_provider_b';

/** What each provider shows of an account, by the API's names. */
const credentials = {
  payment_provider_a: [
    ['client_id', 'Client id'],
    ['client_secret', 'Client secret'],
    ['webhook_id', 'Id of the webhook'],
  ],
  payment_provider_b: [
    ['secret_key', 'Secret key'],
    ['webhook_secret', 'Signing secret of the webhook'],
  ],
} as const;
const names = Object.keys(credentials) as Name[];

/** The payment providers of the platform: which one takes money, and by which account. */
export function Providers() {
  const { data, error, refetch } = useQuery(reading('GET /api/admin/payments/config'));
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <LoadingRows />;
  return (
    <Stack maw={520}>
      <Active config={data} />
      {names.map((name) => (
        <Account key={name} name={name} config={data} />
      ))}
    </Stack>
  );
}

async function save(body: object): Promise<void> {
  await call('PUT /api/admin/payments/config', { body });
  await refresh('/api/admin/payments/config', '/api/payments');
  notifications.show({ message: 'The payment providers are saved.' });
}

function Active({ config }: { config: Config }) {
  return (
    <Select
      label="New payments go to"
      placeholder="none: no top-ups"
      data={names.map((value) => ({ value, label: providerWords(value) }))}
      value={config.active_provider}
      onChange={(active_provider) => void act(() => save({ active_provider }))}
      clearable
      clearButtonProps={{ 'aria-label': 'Take no payments' }}
    />
  );
}

/** Secrets are never answered: an empty field leaves what is there. */
function Account({ name, config }: { name: Name; config: Config }) {
  const { enabled, configured, supported_currencies } = config[name];
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [is_busy, setBusy] = useState(false);
  const given = Object.entries(typed).filter(([, value]) => value.trim() !== '');
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    await act(async () => {
      const said = given.map(([field, value]) => [field, value.trim()]);
      await save({ [name]: Object.fromEntries(said) });
      setTyped({});
    });
    setBusy(false);
  };
  const words = providerWords(name);
  return (
    <form onSubmit={(event) => void submit(event)} aria-label={`The account at ${words}`}>
      <Stack gap="xs">
        <Group justify="space-between">
          <Title order={2} size="h4" tt="capitalize">
            {words}
          </Title>
          <State
            word={configured ? 'set up' : 'not set up'}
            kind={configured ? 'good' : 'neutral'}
          />
        </Group>
        <Text size="sm" c="dimmed">
          Takes {supported_currencies.join(', ')}.
        </Text>
        <Switch
          label={`${words} may be used`}
          checked={enabled}
          onChange={(event) => {
            const turned = event.currentTarget.checked;
            void act(() => save({ [name]: { enabled: turned } }));
          }}
        />
        {credentials[name].map(([field, label]) => (
          <PasswordInput
            key={field}
            label={label}
            placeholder={configured ? 'as it is' : ''}
            value={typed[field] ?? ''}
            onChange={(event) => setTyped({ ...typed, [field]: event.currentTarget.value })}
            autoComplete="off"
            visibilityToggleButtonProps={{ 'aria-label': `Show or hide: ${label}` }}
          />
        ))}
        <Group justify="flex-end">
          <Button type="submit" loading={is_busy} disabled={given.length === 0}>
            Save the account
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
