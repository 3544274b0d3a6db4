import { Button, Group, NumberInput, Stack, Switch, TagsInput, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { changedIn } from '../base/changed';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { WindowSelect, windowOf, windowWords } from '../fields/window-select';
import { act } from '../parts/act';
import { Failure, LoadingRows } from '../parts/states';
import { may, useCurrency, useMe } from '../session/me';

type Rules = Answer<'GET /api/member-keys/:id'>;

/** Whether members make keys for themselves and chat, and within which bounds. */
export function MemberKeys({ id }: { id: string }) {
  const is_manager = may(useMe(), 'tokens:write');
  const { data, error, refetch } = useQuery(reading('GET /api/member-keys/:id', { names: { id } }));
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <LoadingRows />;
  return (
    <Stack component="section">
      <Title order={2} size="h4">
        Keys of members
      </Title>
      {is_manager ? (
        <Form id={id} rules={data} />
      ) : (
        <Text>
          {data.enabled
            ? 'Members make keys for themselves, and chat here.'
            : 'Members make no keys for themselves. An admin may switch that on.'}
        </Text>
      )}
    </Stack>
  );
}

function Form({ id, rules }: { id: string; rules: Rules }) {
  const currency = useCurrency();
  const [change, setChange] = useState<Partial<Rules>>({});
  const [is_busy, setBusy] = useState(false);
  const now = { ...rules, ...change };
  const [typed, setBudget] = useState<number | string>();
  const budget = typed ?? rules.max_budget ?? '';
  const max_budget = typedNumber(budget) ?? null;
  const is_whole = max_budget !== null || String(budget).trim() === '';
  const is_changed = Object.keys(change).length > 0 || max_budget !== rules.max_budget;
  const set = (one: Partial<Rules>) => setChange({ ...change, ...one });
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    await act(async () => {
      // A rule is written as a whole: what is not changed here is as it is now.
      const others = await call('GET /api/member-keys/:id', { names: { id } });
      await call('PUT /api/member-keys/:id', {
        names: { id },
        body: { ...others, ...change, ...changedIn({ max_budget }, rules) },
      });
      setChange({});
      setBudget(undefined);
      await refresh('/api/member-keys');
      notifications.show({ message: 'The rule for keys of members is saved.' });
    });
    setBusy(false);
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <Stack gap="sm">
        <Switch
          label="Members make keys for themselves"
          description="They also need one to chat here. Keys that they have stay when it is switched off."
          checked={now.enabled}
          onChange={(event) => set({ enabled: event.currentTarget.checked })}
        />
        {now.enabled && (
          <>
            <NumberInput
              label="Active keys per person, at most"
              value={now.max_keys}
              onChange={(value) => typeof value === 'number' && set({ max_keys: value })}
              min={1}
              max={1_000}
              allowDecimal={false}
            />
            <AmountInput
              label={`What one key may spend ${windowWords(windowOf(now.budget_window))}, in ${currency}`}
              description="Empty: no bound of its own."
              currency={currency}
              value={budget}
              onChange={setBudget}
            />
            {max_budget !== null && (
              <WindowSelect
                value={windowOf(now.budget_window)}
                onChange={(one) => set({ budget_window: one === 'life' ? null : one })}
              />
            )}
            <NumberInput
              label="Longest life of a key, in days"
              description="Empty: no limit."
              value={now.max_days ?? ''}
              onChange={(value) => set({ max_days: typeof value === 'number' ? value : null })}
              min={1}
              max={3_650}
              allowDecimal={false}
            />
            <TagsInput
              label="Models"
              description="None: every model. A star may end a name: gpt-4o*"
              value={now.allowed_models ?? []}
              onChange={(all) => set({ allowed_models: all.length > 0 ? all : null })}
            />
          </>
        )}
        <Group justify="flex-end">
          <Button type="submit" loading={is_busy} disabled={!is_whole || !is_changed}>
            Save the rule
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
