import { Select, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refusedText } from '../api/intents';
import { reading, refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { useLast } from '../parts/use-last';
import { useCurrency } from '../session/me';
import { beyond, CAPS, type Cap, counts, modelWords } from './words';

type Fields = Pick<
  Cap,
  'constraint_type' | 'provider' | 'model_pattern' | 'interval' | 'enforcement_mode'
>;

const kinds = Object.entries(counts).map(([value, label]) => ({ value, label }));
const ends = Object.entries(beyond).map(([value, label]) => ({ value, label }));
/** A cap holds in a calendar window of UTC. */
const intervals = [
  { value: 'hour', label: 'hour' },
  { value: 'day', label: 'day (UTC)' },
  { value: 'week', label: 'week from Monday (UTC)' },
  { value: 'month', label: 'month (UTC)' },
];
const fresh: Fields = {
  constraint_type: 'cost',
  provider: '',
  model_pattern: '*',
  interval: 'day',
  enforcement_mode: 'reject',
};

interface OfAgent {
  agent_id: string;
  onClose: () => void;
}

/** Caps an agent, or changes one of its caps. */
export function CapDialog({
  opened,
  agent_id,
  cap,
  onClose,
}: OfAgent & {
  opened: boolean;
  /** The one that is changed; undefined: a new one. */
  cap: Cap | undefined;
}) {
  const currency = useCurrency();
  const [fields, setFields] = useState(fresh);
  const [most, setMost] = useState<number | string>('');
  const [is_new, setNew] = useState(true);
  const { data: prices, error } = useQuery({ ...reading('GET /api/prices'), enabled: opened });
  useEffect(() => {
    if (!opened) return;
    setFields(cap ?? fresh);
    setMost(cap?.max_value ?? '');
    setNew(cap === undefined);
  }, [opened, cap]);
  const edit = (change: Partial<Fields>) => setFields((before) => ({ ...before, ...change }));
  const { constraint_type, provider, model_pattern, interval, enforcement_mode } = fields;
  const max_value = typedNumber(most);
  const is_cost = constraint_type === 'cost';
  const pattern = model_pattern.trim();
  const is_pattern = /^[^*]*\*?$/.test(pattern);
  const is_whole = max_value === undefined || is_cost || Number.isInteger(max_value);
  const submit = async (idempotency_key: string) => {
    if (max_value === undefined) return;
    const body = {
      constraint_type,
      provider,
      model_pattern: pattern,
      max_value,
      interval,
      enforcement_mode,
    };
    if (cap)
      await call('PUT /api/agents/:id/usage-constraints/:cid', {
        names: { id: agent_id, cid: cap.id },
        body,
        idempotency_key,
      });
    else
      await call('POST /api/agents/:id/usage-constraints', {
        names: { id: agent_id },
        body,
        idempotency_key,
      });
    void refresh(CAPS);
    onClose();
  };
  const priced = prices?.models.map((price) => price.provider) ?? [];
  // One that has no price any more is kept by a cap on it.
  const providers = [...new Set([...priced, ...(provider === '' ? [] : [provider])])].sort();
  return (
    <FormModal
      title={is_new ? 'A new cap' : 'Change the cap'}
      opened={opened}
      onClose={onClose}
      submit={submit}
      label={is_new ? 'Make the cap' : 'Change the cap'}
      is_ready={
        provider !== '' && pattern !== '' && is_pattern && max_value !== undefined && is_whole
      }
    >
      <Select
        label="Limit"
        data={kinds}
        value={constraint_type}
        onChange={(value) => edit({ constraint_type: (value ?? 'cost') as 'cost' })}
        allowDeselect={false}
      />
      <Select
        label="Provider"
        data={providers}
        value={provider === '' ? null : provider}
        onChange={(value) => edit({ provider: value ?? '' })}
        error={error && prices === undefined ? refusedText(error) : undefined}
        nothingFoundMessage={prices ? 'No provider with a price has this name' : undefined}
        searchable
        allowDeselect={false}
        required
      />
      <TextInput
        label="Models"
        description="One name. A star may end it: gpt-4o*; a star alone is every model."
        value={model_pattern}
        onChange={(event) => edit({ model_pattern: event.currentTarget.value })}
        error={is_pattern ? undefined : 'It may hold one star, at its end.'}
        maxLength={200}
        required
      />
      <AmountInput
        label={is_cost ? `At most, in ${currency}` : 'At most, in answers'}
        currency={is_cost ? currency : undefined}
        digits={is_cost ? 9 : 0}
        value={most}
        onChange={setMost}
        required
      />
      <Select
        label="Per"
        data={intervals}
        value={interval}
        onChange={(value) => edit({ interval: (value ?? 'day') as 'day' })}
        allowDeselect={false}
      />
      <Select
        label="Calls beyond it"
        data={ends}
        value={enforcement_mode}
        onChange={(value) => edit({ enforcement_mode: (value ?? 'reject') as 'reject' })}
        allowDeselect={false}
      />
      <Text size="sm" c="dimmed">
        What calls have cost and hold in the present window counts at once.
      </Text>
    </FormModal>
  );
}

/** Takes a cap away. */
export function DeleteCap({ agent_id, cap, onClose }: OfAgent & { cap: Cap | undefined }) {
  const shown = useLast(cap);
  const submit = async () => {
    if (cap === undefined) return;
    await call('DELETE /api/agents/:id/usage-constraints/:cid', {
      names: { id: agent_id, cid: cap.id },
    });
    void refresh(CAPS);
    onClose();
  };
  return (
    <FormModal
      title={`Delete the cap on ${shown ? modelWords(shown) : ''}`}
      opened={cap !== undefined}
      onClose={onClose}
      submit={submit}
      label="Delete"
      is_dangerous
    >
      <Text>Calls are no longer bound by it, from the next one on.</Text>
    </FormModal>
  );
}
