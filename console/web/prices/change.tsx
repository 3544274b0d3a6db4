import { Accordion, Alert, Button, SimpleGrid, Switch, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { type Answer, type Body, call } from '../api/client';
import { refreshPrices } from '../api/refresh-prices';
import { typedNumber, typedText } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { Money } from '../parts/money';
import { wordsOf } from '../session/sign-in-forms';
import { type Amount, amounts, isNeeded, names, type Price } from './words';

type Preview = Answer<'POST /api/admin/prices/preview'>;
type Form = Record<Amount | 'provider' | 'model' | 'from', string> & { free: boolean };

const DAYS = 7;
/** Those that stand first; the others are folded away unless the price has them. */
const first: readonly Amount[] = ['input_per_1m', 'cached_input_per_1m', 'output_per_1m'];

/**
 * A new price, or a new version of one: at once or from a day on. Before it is saved it can be
 * tried on the calls of the last week.
 */
export function PriceDialog({
  price,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  price: Price | 'new' | undefined;
  onClose: () => void;
}) {
  const [form, setForm] = useState<Form>(formOf(undefined));
  /** Of the form that it was asked for, and shown with no other. */
  const [answer, setAnswer] = useState<{ to: Form; preview: Preview }>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    setForm(formOf(price === 'new' ? undefined : price));
    setProblem(undefined);
  }, [price]);
  if (price === undefined) return null;
  const present = price === 'new' ? undefined : price;
  const edit = (change: Partial<Form>) => setForm((before) => ({ ...before, ...change }));
  const wrong = names.filter((name) => amountOf(name, form) === undefined);
  const is_ready = wrong.length === 0 && form.provider !== '' && form.model !== '';
  const tryIt = async () => {
    setProblem(undefined);
    const body = { ...keptOf(present), ...wholeOf(form), days: DAYS };
    await call('POST /api/admin/prices/preview', { body }).then(
      (preview) => setAnswer({ to: form, preview }),
      (refusal) => setProblem(wordsOf(refusal)),
    );
  };
  const submit = async (idempotency_key: string) => {
    await save(present, form, idempotency_key);
    void refreshPrices();
    notifications.show({ message: `The price of ${form.model} is set.` });
    onClose();
  };
  const field = (name: Amount) => (
    <AmountInput
      key={name}
      label={amounts[name]}
      currency={name === 'minimum_seconds' ? undefined : 'USD'}
      value={form[name]}
      onChange={(typed) => edit({ [name]: typed })}
      required={isNeeded(name)}
    />
  );
  const further = names.filter((name) => !first.includes(name));
  return (
    <FormModal
      title={present ? `A new version for ${present.model}` : 'A new price'}
      opened
      onClose={onClose}
      submit={submit}
      label="Save"
      is_ready={is_ready}
    >
      {!present && (
        <SimpleGrid cols={2}>
          <TextInput
            label="Provider"
            value={form.provider}
            onChange={(event) => edit({ provider: event.currentTarget.value })}
            required
            data-autofocus
          />
          <TextInput
            label="Model"
            description="A trailing * matches every model that begins with it."
            value={form.model}
            onChange={(event) => edit({ model: event.currentTarget.value })}
            required
          />
        </SimpleGrid>
      )}
      <Text size="sm">All amounts are in USD.</Text>
      {first.map(field)}
      <Accordion order={3} variant="contained">
        <Accordion.Item value="further">
          <Accordion.Control>Further amounts</Accordion.Control>
          <Accordion.Panel>{further.map(field)}</Accordion.Panel>
        </Accordion.Item>
      </Accordion>
      {hasLists(present) && (
        <Text size="sm" c="dimmed">
          Amounts by length of prompt, tier and region stay as they are; the API changes them.
        </Text>
      )}
      <Switch
        label="The model costs nothing"
        checked={form.free}
        onChange={(event) => edit({ free: event.currentTarget.checked })}
      />
      <TextInput
        type="datetime-local"
        label="In force from"
        description="In this computer's time zone. Leave empty to apply now. Calls under way keep their price."
        value={form.from}
        onChange={(event) => edit({ from: event.currentTarget.value })}
      />
      <Button variant="default" disabled={!is_ready} onClick={() => void tryIt()}>
        Try it on the calls of the last {DAYS} days
      </Button>
      {problem && (
        <Alert color="red" role="alert">
          {problem}
        </Alert>
      )}
      {answer?.to === form && <Result preview={answer.preview} />}
    </FormModal>
  );
}

function Result({ preview }: { preview: Preview }) {
  const { calls, days, present_cost, new_cost, dearer_calls, truncated } = preview;
  if (calls === 0)
    return <Alert color="gray">No call was billed by this price in {days} days.</Alert>;
  return (
    <Alert color="indigo" role="status" title="What it would have cost">
      {calls} calls of the last {days} days cost <Money amount={present_cost} currency="USD" />. By
      these amounts they would have cost <Money amount={new_cost} currency="USD" fw={700} />;{' '}
      {dearer_calls} of them more than they did.
      {truncated && ' No more calls than these are looked at: there may be more.'}
    </Alert>
  );
}

function formOf(price: Price | undefined): Form {
  const texts = names.map((name) => {
    const amount = price?.[name] ?? null;
    return [name, amount === null ? '' : typedText(amount)];
  });
  return {
    ...(Object.fromEntries(texts) as Record<Amount, string>),
    provider: price?.provider ?? '',
    model: price?.model ?? '',
    from: '',
    free: price?.free ?? false,
  };
}

/** What is typed for an amount; null: none; undefined: it is no amount. */
function amountOf(name: Amount, form: Form): number | null | undefined {
  const text = form[name].trim();
  if (text === '') return isNeeded(name) ? 0 : null;
  return typedNumber(text);
}

type Whole = Body<'POST /api/admin/prices'>;

function wholeOf(form: Form): Whole {
  const typed = Object.fromEntries(names.map((name) => [name, amountOf(name, form) ?? null]));
  const { provider, model, free } = form;
  return { ...typed, provider: provider.trim(), model: model.trim(), free } as Whole;
}

/** What the dialog does not show of a price, and keeps. */
function keptOf(price: Price | undefined): object {
  if (price === undefined) return {};
  const { max_output_tokens, reasoning, tiers, service_tiers, regions } = price;
  return { max_output_tokens, reasoning, tiers, service_tiers, regions };
}

function hasLists(price: Price | undefined): boolean {
  return (price?.tiers ?? price?.service_tiers ?? price?.regions ?? null) !== null;
}

function save(price: Price | undefined, form: Form, idempotency_key: string): Promise<unknown> {
  const when = form.from === '' ? {} : { effective_from: new Date(form.from).toISOString() };
  const whole = wholeOf(form);
  if (price === undefined)
    return call('POST /api/admin/prices', { body: { ...whole, ...when }, idempotency_key });
  const changed = Object.entries(whole).filter(
    ([name, value]) => value !== price[name as keyof Price],
  );
  const body = { ...Object.fromEntries(changed), ...when };
  return call('PUT /api/admin/prices/:id', { names: { id: price.id }, body, idempotency_key });
}
