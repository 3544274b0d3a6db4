import { Select, TagsInput, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { refresh } from '../api/queries';
import { changedIn } from '../base/changed';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { type Window, WindowSelect, windowOf } from '../fields/window-select';
import { FormModal } from '../parts/form-modal';
import { NAMES } from '../parts/names';
import { useLast } from '../parts/use-last';
import { emptyBudget, emptyModels } from './empty-words';
import { expiryOf, livesWithin, useOwnKeyRules } from './lives';

type Key = Answer<'GET /api/keys'>['tokens'][number];

const AS_IT_IS = 'as-it-is';

/**
 * Changes a living key: its name, models, budget with its window, and end. Its value and whose it
 * is stay.
 */
export function ChangeDialog({
  token,
  currency,
  is_own,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  token: Key | undefined;
  currency: string;
  /** By the right to keys of one's own. */
  is_own: boolean;
  onClose: () => void;
}) {
  const shown = useLast(token);
  const [name, setName] = useState('');
  const [models, setModels] = useState<string[]>([]);
  const [budget, setBudget] = useState<number | string>('');
  const [window, setWindow] = useState<Window>('life');
  const [life, setLife] = useState(AS_IT_IS);
  useEffect(() => {
    if (token === undefined) return;
    setName(token.name);
    setModels(token.allowed_models ?? []);
    setBudget(token.max_budget ?? '');
    setWindow(windowOf(token.budget_window));
    setLife(AS_IT_IS);
  }, [token]);
  const is_gateway = shown?.token_type === 'gateway';
  const max_budget = typedNumber(budget) ?? null;
  const rules = useOwnKeyRules(token !== undefined && is_own);
  const submit = async () => {
    if (token === undefined) return;
    const named = changedIn({ name: name.trim() }, token);
    const { models: chosen_models, ...bounds } = changedIn(
      { models, max_budget, budget_window: window },
      {
        models: token.allowed_models ?? [],
        max_budget: token.max_budget,
        budget_window: windowOf(token.budget_window),
      },
    );
    const body = {
      ...named,
      ...(is_gateway ? bounds : {}),
      ...(is_gateway && chosen_models
        ? { allowed_models: chosen_models.length > 0 ? chosen_models : null }
        : {}),
      ...(life === AS_IT_IS ? {} : { expires_at: expiryOf(life) }),
    };
    const names = { name: token.name };
    if (is_own) await call('PATCH /api/my-keys/:name', { names, body });
    else await call('PATCH /api/keys/:name', { names, body });
    void refresh('/api/keys', '/api/my-keys', '/api/budgets', NAMES);
    notifications.show({ message: `${name.trim()} is changed.` });
    onClose();
  };
  return (
    <FormModal
      title={`Change ${shown?.name ?? ''}`}
      opened={token !== undefined}
      onClose={onClose}
      submit={submit}
      label="Change the key"
      is_ready={name.trim() !== '' && (budget === '' || max_budget !== null)}
      fields={['budget_window']}
    >
      {(refusedAt) => (
        <>
          <TextInput
            label="Name"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            maxLength={200}
            data-autofocus
            required
          />
          {is_gateway && (
            <>
              <TagsInput
                label="Models"
                description={`${shown.allowed_models?.length === 0 ? 'It may call none until some are named.' : emptyModels(rules)} A star may end a name: gpt-4o*. Gateways see it within 30 seconds.`}
                value={models}
                onChange={setModels}
              />
              <AmountInput
                label={`Budget in ${currency}`}
                description={`${emptyBudget(rules, { window, currency })}${is_own && shown.max_budget !== null ? ' You may only make it less.' : ''}`}
                currency={currency}
                value={budget}
                onChange={setBudget}
              />
              <WindowSelect
                value={window}
                onChange={setWindow}
                error={refusedAt('budget_window')}
              />
            </>
          )}
          <Select
            label="Expires"
            data={[
              { value: AS_IT_IS, label: 'unchanged' },
              ...livesWithin(rules?.max_days ?? null),
            ]}
            value={life}
            onChange={(value) => setLife(value ?? AS_IT_IS)}
            allowDeselect={false}
          />
        </>
      )}
    </FormModal>
  );
}
