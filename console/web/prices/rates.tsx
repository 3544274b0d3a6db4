import { Button, Group, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { typedNumber, typedText } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { amountText } from './words';

interface Rate {
  currency: string;
  rate: number;
}

/** How many units of each currency one US dollar is. */
export function Rates() {
  const query = useQuery({
    ...reading('GET /api/admin/exchange-rates'),
    select: ({ rates, updated_at }: Answer<'GET /api/admin/exchange-rates'>) => ({
      rates: Object.entries(rates).map(([currency, rate]): Rate => ({ currency, rate })),
      updated_at,
      has_more: false,
    }),
  });
  const [changing, setChanging] = useState<Rate | 'new'>();
  return (
    <>
      <Group justify="space-between" mb="sm">
        <Text>
          Prices are in USD. Each call is held and settled at the rate of its hold; these were set{' '}
          {query.data?.updated_at ? <Time at={query.data.updated_at} /> : 'never'}.
        </Text>
        <Button onClick={() => setChanging('new')}>New currency</Button>
      </Group>
      <DataTable
        label="Exchange rates"
        query={query}
        itemsOf={({ rates }) => rates}
        keyOf={({ currency }) => currency}
        columns={[
          { title: 'Currency', cell: ({ currency }) => currency },
          { title: 'For 1 USD', is_number: true, cell: ({ rate }) => amountText(rate) },
        ]}
        empty={<Empty title="No rates">Only organizations in USD can make calls.</Empty>}
        actions={(rate) => (
          <Button size="compact-sm" variant="default" onClick={() => setChanging(rate)}>
            Change
          </Button>
        )}
      />
      <RateDialog rate={changing} onClose={() => setChanging(undefined)} />
    </>
  );
}

function RateDialog({ rate, onClose }: { rate: Rate | 'new' | undefined; onClose: () => void }) {
  const [currency, setCurrency] = useState('');
  const [typed, setTyped] = useState('');
  useEffect(() => {
    setCurrency(rate === undefined || rate === 'new' ? '' : rate.currency);
    setTyped(rate === undefined || rate === 'new' ? '' : typedText(rate.rate));
  }, [rate]);
  if (rate === undefined) return null;
  const units = typedNumber(typed);
  const submit = async (idempotency_key: string) => {
    const body = { rates: { [currency]: units ?? 0 } };
    await call('PUT /api/admin/exchange-rates', { body, idempotency_key });
    void refresh('/api/admin/exchange-rates');
    notifications.show({ message: `1 USD is ${amountText(units ?? 0)} ${currency} now.` });
    onClose();
  };
  return (
    <FormModal
      title={rate === 'new' ? 'A rate for a currency' : `The rate of ${rate.currency}`}
      opened
      onClose={onClose}
      submit={submit}
      label="Set"
      is_ready={/^[A-Z]{3}$/.test(currency) && units !== undefined && units > 0}
    >
      {rate === 'new' && (
        <TextInput
          label="Currency"
          placeholder="EUR"
          value={currency}
          onChange={(event) => setCurrency(event.currentTarget.value.trim().toUpperCase())}
          maxLength={3}
          data-autofocus
        />
      )}
      <AmountInput
        label="Units for 1 USD"
        value={typed}
        onChange={setTyped}
        data-autofocus={rate !== 'new'}
      />
    </FormModal>
  );
}
