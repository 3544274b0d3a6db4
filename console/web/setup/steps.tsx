import { Autocomplete, Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call, send, showNext } from '../api/client';
import { queries, reading, refresh } from '../api/queries';
import { refreshPrices } from '../api/refresh-prices';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { State } from '../parts/badge';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { useMe } from '../session/me';
import { type Step, StepForm } from './step-form';

/** The first screen: an organization, which is looked at from then on. */
export function OrganizationStep({ onDone }: Step) {
  const [name, setName] = useState('');
  const [currency, setCurrency] = useState('USD');
  const submit = async (idempotency_key: string) => {
    const body = { name: name.trim(), currency: currency.trim().toUpperCase() };
    const { id } = await call('POST /api/organizations', { body, idempotency_key });
    await send('PUT', '/api/session/org', { body: { org_id: id } });
    showNext(id);
    queries.removeQueries({ predicate: ({ queryKey: [path] }) => path !== '/api/me' });
    await refresh('/api/');
  };
  return (
    <StepForm
      label="Make the organization"
      is_ready={name.trim() !== '' && /^[a-z]{3}$/i.test(currency.trim())}
      {...{ submit, onDone }}
    >
      <Text>
        Everything belongs to an organization: people, keys, wallets, and what calls cost.
      </Text>
      <TextInput
        label="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        required
      />
      <TextInput
        label="Currency"
        description="Three letters of ISO 4217; all its money is counted in it."
        value={currency}
        onChange={(event) => setCurrency(event.currentTarget.value)}
        required
      />
    </StepForm>
  );
}

/** The second: what a model costs. A model without a price is refused. */
export function PriceStep({ onDone }: Step) {
  const { data } = useQuery(reading('GET /api/setup/prices'));
  const { data: kinds } = useQuery(reading('GET /api/setup/provider-kinds'));
  const [provider, setProvider] = useState('openai');
  const [model, setModel] = useState('');
  const [input, setInput] = useState<number | string>('');
  const [output, setOutput] = useState<number | string>('');
  const count = data?.models.length ?? 0;
  const submit = async (idempotency_key: string) => {
    const body = {
      provider: provider.trim(),
      model: model.trim(),
      input_per_1m: typedNumber(input),
      output_per_1m: typedNumber(output),
    };
    await call('POST /api/setup/prices', { body, idempotency_key });
    await refreshPrices();
  };
  const is_ready =
    provider.trim() !== '' &&
    model.trim() !== '' &&
    typedNumber(input) !== undefined &&
    typedNumber(output) !== undefined;
  return (
    <Stack>
      {count > 0 && (
        <Group>
          <State word={`${count} prices are there`} kind="good" />
          <Button variant="default" onClick={onDone}>
            Go on with these
          </Button>
        </Group>
      )}
      <StepForm label="Set the price" {...{ is_ready, submit, onDone }}>
        <Text>
          The gateway holds and charges by prices, and refuses a model that has none. They are in
          USD for a million tokens. Many at once come from{' '}
          <AppLink to="/prices" search={{ tab: 'catalogs' }}>
            a catalog
          </AppLink>
          .
        </Text>
        <Autocomplete
          label="Provider"
          description="The kind of provider that serves it, or a name of your own."
          data={kinds?.kinds.map(({ kind }) => kind) ?? []}
          value={provider}
          onChange={setProvider}
          required
        />
        <TextInput
          label="Model"
          placeholder="gpt-4o-mini"
          value={model}
          onChange={(event) => setModel(event.currentTarget.value)}
          required
        />
        <AmountInput label="Input" currency="USD" value={input} onChange={setInput} required />
        <AmountInput label="Output" currency="USD" value={output} onChange={setOutput} required />
      </StepForm>
    </Stack>
  );
}

/** The fourth: money in the organization's wallet. */
export function WalletStep({ onDone }: Step) {
  const me = useMe();
  const [amount, setAmount] = useState<number | string>(100);
  const { data } = useQuery({
    ...reading('GET /api/wallets', { query: { owner_type: 'organization', per_page: 1 } }),
    enabled: me.acting_org !== null,
  });
  const wallet = data?.wallets[0];
  const submit = async (idempotency_key: string) => {
    const body = {
      target_wallet_owner_type: 'organization' as const,
      amount: typedNumber(amount) ?? 0,
      description: 'The first credit',
    };
    await call('POST /api/wallets/credit', { body, idempotency_key });
    await refresh('/api/wallets', '/api/me');
  };
  return (
    <Stack>
      {wallet && (
        <Group>
          <Text>
            The wallet has <Money amount={wallet.balance} currency={wallet.currency} fw={700} />.
          </Text>
          {wallet.balance > 0 && (
            <Button variant="default" onClick={onDone}>
              That is enough
            </Button>
          )}
        </Group>
      )}
      <StepForm label="Credit it" is_ready={(typedNumber(amount) ?? 0) > 0} {...{ submit, onDone }}>
        <Text>
          Calls are paid for from a wallet in advance. People can top it up by card later.
        </Text>
        <AmountInput
          label={`Amount in ${wallet?.currency ?? 'its currency'}`}
          currency={wallet?.currency}
          value={amount}
          onChange={setAmount}
          required
        />
      </StepForm>
    </Stack>
  );
}
