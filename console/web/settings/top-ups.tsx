import { Button, Group, MultiSelect, Stack, TagsInput, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { type Answer, type Body, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { typedNumber, typedText } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { act } from '../parts/act';
import { inputDigits } from '../parts/money';
import { Failure, LoadingRows } from '../parts/states';

type Rules = Answer<'GET /api/payments/settings'>;
type Change = Body<'PUT /api/payments/settings'>;

const scopes = [
  { value: 'organization', label: 'the organization' },
  { value: 'team', label: 'a team' },
  { value: 'user', label: 'the buyer' },
];

/** What may be topped up, into which wallets, and where buyers come back to. */
export function TopUps() {
  const { data, error, refetch } = useQuery(reading('GET /api/payments/settings'));
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <LoadingRows />;
  return <Form rules={data} />;
}

/** Fields as they are typed; what was touched is sent, and the rest stays. */
function Form({ rules }: { rules: Rules }) {
  const { currency } = rules;
  const digits = inputDigits(currency);
  const [min, setMin] = useState<string>();
  const [max, setMax] = useState<string>();
  const [amounts, setAmounts] = useState<string[]>();
  const [targets, setTargets] = useState<string[]>();
  const [origins, setOrigins] = useState<string[]>();
  const [is_busy, setBusy] = useState(false);
  const here = location.origin;
  const shown = origins ?? rules.return_origins;
  const numbers = amounts?.map((one) => typedNumber(one));
  const wrong = amounts?.filter((one) => typedNumber(one) === undefined) ?? [];
  const is_whole =
    wrong.length === 0 &&
    [min, max].every((one) => one === undefined || typedNumber(one) !== undefined) &&
    targets?.length !== 0;
  const change: Change = {
    ...(min === undefined ? {} : { min_topup_amount: typedNumber(min) }),
    ...(max === undefined ? {} : { max_topup_amount: typedNumber(max) }),
    ...(numbers === undefined ? {} : { allowed_topup_amounts: numbers as number[] }),
    ...(targets === undefined ? {} : { topup_target_scopes: targets as ['team'] }),
    ...(origins === undefined ? {} : { return_origins: origins }),
  };
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    await act(async () => {
      await call('PUT /api/payments/settings', { body: change });
      for (const forget of [setMin, setMax]) forget(undefined);
      for (const forget of [setAmounts, setTargets, setOrigins]) forget(undefined);
      await refresh('/api/payments');
      notifications.show({ message: 'The rules of top-ups are saved.' });
    });
    setBusy(false);
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <Stack maw={520}>
        {!rules.payment_provider_configured && (
          <Text>
            Nobody can pay yet: an operator of the platform sets up a payment provider under
            Payments.
          </Text>
        )}
        <TagsInput
          label={`Amounts that are offered, in ${currency}`}
          description="Buttons of the page; any amount within the bounds is taken."
          value={amounts ?? rules.allowed_topup_amounts.map(typedText)}
          onChange={setAmounts}
          // A comma may be a part of an amount.
          splitChars={[]}
          error={wrong.length > 0 ? `${wrong[0]} is no amount.` : undefined}
        />
        <AmountInput
          label={`The least, in ${currency}`}
          currency={currency}
          value={min ?? rules.min_topup_amount}
          onChange={setMin}
          digits={digits}
        />
        <AmountInput
          label={`The most, in ${currency}`}
          currency={currency}
          value={max ?? rules.max_topup_amount}
          onChange={setMax}
          digits={digits}
        />
        <MultiSelect
          label="Wallets that may be topped up"
          data={scopes}
          value={targets ?? rules.topup_target_scopes}
          onChange={setTargets}
          error={targets?.length === 0 ? 'Name at least one.' : undefined}
        />
        <TagsInput
          label="Where buyers may come back to"
          description="Addresses of servers alone, such as https://console.example.com"
          value={shown}
          onChange={setOrigins}
          splitChars={[',', ' ']}
        />
        {!shown.includes(here) && (
          <Group>
            <Button variant="default" onClick={() => setOrigins([...shown, here])}>
              Add this console: {here}
            </Button>
          </Group>
        )}
        <Group justify="flex-end">
          <Button
            type="submit"
            loading={is_busy}
            disabled={Object.keys(change).length === 0 || !is_whole}
          >
            Save
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
