import { Button, Group, Select, Stack, Switch, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { type Answer, type Body, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { locale } from '../base/locale';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { act } from '../parts/act';
import { CopyId } from '../parts/copy-id';
import { Failure, LoadingRows } from '../parts/states';
import { may, useMe } from '../session/me';
import { MemberKeys } from './member-keys';

type Settings = Answer<'GET /api/wallet-settings/:id'>;
type Change = Body<'PUT /api/wallet-settings/:id'>;

// Browsers list these by their older names alone.
const renamed = [
  'America/Nuuk',
  'Asia/Ho_Chi_Minh',
  'Asia/Kathmandu',
  'Asia/Kolkata',
  'Asia/Yangon',
  'Atlantic/Faroe',
  'Europe/Kyiv',
];
const zones = [...new Set(['UTC', ...Intl.supportedValuesOf('timeZone'), ...renamed])];

/** What the organization lets its members do, and its rules as far as the viewer may see them. */
export function Organization() {
  const me = useMe();
  const id = me.acting_org ?? '';
  return (
    <Stack maw={520}>
      <Group gap="xs">
        <Text c="dimmed">The organization's id</Text>
        <CopyId value={id} />
      </Group>
      <MemberKeys key={id} id={id} />
      {may(me, 'org:billing') && <WalletRules id={id} />}
    </Stack>
  );
}

/** The rules of the organization's wallets and its reporting zone: operators change them. */
function WalletRules({ id }: { id: string }) {
  const me = useMe();
  const { data, error, refetch } = useQuery(
    reading('GET /api/wallet-settings/:id', { names: { id } }),
  );
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <LoadingRows />;
  return (
    <Stack>
      <Title order={2} size="h4">
        Wallets and reports
      </Title>
      {!me.is_operator && (
        <Text>Operators of the platform change these. Ask them for another zone or rule.</Text>
      )}
      <Form key={id} settings={data} id={id} is_locked={!me.is_operator} />
    </Stack>
  );
}

/** What a factor makes of the price list. */
function factorWords(factor: number): string {
  if (factor === 0) return 'Calls are free of charge.';
  if (factor === 1) return 'Calls cost what the price list says.';
  const per_cent = count.format(Math.abs(factor - 1) * 100);
  return `Calls cost ${per_cent} per cent ${factor < 1 ? 'less' : 'more'} than the price list says.`;
}

const count = new Intl.NumberFormat(locale, { maximumFractionDigits: 4 });

function Form({ settings, id, is_locked }: { settings: Settings; id: string; is_locked: boolean }) {
  const [change, setChange] = useState<Change>({});
  const [is_busy, setBusy] = useState(false);
  const now = { ...settings, ...change } as Settings;
  const set = (one: Change) => setChange({ ...change, ...one });
  // What was typed, whole or not; only what is a number is a change.
  const [typed, setTyped] = useState<Record<string, string>>({});
  const number = (
    name: 'reserve_buffer_pct' | 'low_balance_threshold' | 'ticket_ttl_seconds' | 'price_factor',
  ) => ({
    value: typed[name] ?? settings[name],
    onChange: (text: string) => {
      setTyped({ ...typed, [name]: text });
      set({ [name]: typedNumber(text) });
    },
    // Locked, but still to be read.
    readOnly: is_locked,
  });
  const is_whole = Object.values(typed).every((text) => typedNumber(text) !== undefined);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    await act(async () => {
      await call('PUT /api/wallet-settings/:id', { names: { id }, body: change });
      setChange({});
      setTyped({});
      await refresh('/api/wallet-settings', '/api/me', '/api/spend', '/api/budgets');
      notifications.show({ message: 'The settings are saved.' });
    });
    setBusy(false);
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <Stack>
        <Select
          label="Reporting zone"
          description="Days and months of spend, and budget windows, follow this time zone."
          data={zones.includes(now.time_zone) ? zones : [now.time_zone, ...zones]}
          value={now.time_zone}
          onChange={(time_zone) => time_zone && set({ time_zone })}
          allowDeselect={false}
          searchable
          readOnly={is_locked}
        />
        <AmountInput
          label={`A wallet is low below, in ${settings.currency}`}
          currency={settings.currency}
          {...number('low_balance_threshold')}
        />
        <AmountInput
          label="Held above the estimate, in per cent"
          {...number('reserve_buffer_pct')}
        />
        <AmountInput
          label="Factor on prices"
          description={factorWords(now.price_factor ?? settings.price_factor)}
          digits={6}
          {...number('price_factor')}
        />
        <AmountInput
          label="A ticket stays open for, in seconds"
          digits={0}
          {...number('ticket_ttl_seconds')}
        />
        <Select
          label="Credits by hand"
          data={[
            { value: 'allowed', label: 'who may pay may credit' },
            { value: 'platform_only', label: 'only the platform adds money' },
          ]}
          value={now.manual_credit}
          onChange={(value) => set({ manual_credit: (value ?? 'allowed') as 'allowed' })}
          allowDeselect={false}
          readOnly={is_locked}
        />
        <Switch
          label="Members may top up their own wallets"
          checked={now.wallet_user_topup_enabled}
          onChange={(event) => set({ wallet_user_topup_enabled: event.currentTarget.checked })}
          disabled={is_locked}
        />
        {!is_locked && (
          <Group justify="flex-end">
            <Button
              type="submit"
              loading={is_busy}
              disabled={Object.keys(change).length === 0 || !is_whole}
            >
              Save
            </Button>
          </Group>
        )}
      </Stack>
    </form>
  );
}
