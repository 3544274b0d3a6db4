import { Select, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { refresh } from '../api/queries';
import { changedIn } from '../base/changed';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { TeamSelect } from '../fields/team-select';
import { FormModal } from '../parts/form-modal';
import { useCurrency } from '../session/me';

export type ApprovalRule = Answer<'GET /api/approval-rules'>['approval_rules'][number];

const sources = [
  { value: 'organization', label: "the organization's wallet" },
  { value: 'team', label: "the team's wallet" },
];

/** Makes a rule, or changes the given one. */
export function RuleDialog({
  opened,
  rule,
  onClose,
}: {
  opened: boolean;
  rule?: ApprovalRule | undefined;
  onClose: () => void;
}) {
  const own_currency = useCurrency();
  const currency = rule?.currency ?? own_currency;
  const [name, setName] = useState('');
  const [team_id, setTeam] = useState<string | null>(null);
  const [per_call, setPerCall] = useState<number | string>('');
  const [per_day, setPerDay] = useState<number | string>('');
  const [source, setSource] = useState<ApprovalRule['source']>('organization');
  useEffect(() => {
    if (!opened) return;
    setName(rule?.name ?? '');
    setTeam(rule?.team_id ?? null);
    setPerCall(rule?.max_per_call ?? '');
    setPerDay(rule?.max_per_day ?? '');
    setSource(rule?.source ?? 'organization');
  }, [opened, rule]);
  const submit = async (idempotency_key: string) => {
    const body = {
      name: name.trim(),
      team_id,
      max_per_call: typedNumber(per_call) ?? 0,
      max_per_day: typedNumber(per_day) ?? 0,
      source,
    };
    if (rule)
      await call('PUT /api/approval-rules/:id', {
        names: { id: rule.id },
        body: changedIn(body, rule),
      });
    else await call('POST /api/approval-rules', { body, idempotency_key });
    void refresh('/api/approval-rules');
    notifications.show({ message: `The rule ${body.name} is active.` });
    onClose();
  };
  return (
    <FormModal
      title={rule ? `Change ${rule.name}` : 'A new rule'}
      opened={opened}
      onClose={onClose}
      submit={submit}
      label={rule ? 'Change the rule' : 'Make the rule'}
      is_ready={
        name.trim() !== '' && (typedNumber(per_call) ?? 0) > 0 && (typedNumber(per_day) ?? 0) > 0
      }
    >
      <TextInput
        label="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        data-autofocus
        required
      />
      <TeamSelect
        label="Calls of"
        placeholder="everybody"
        none="Calls of everybody"
        value={team_id}
        onChange={setTeam}
      />
      <AmountInput
        label={`The most that one call may cost, in ${currency}`}
        currency={currency}
        value={per_call}
        onChange={setPerCall}
        required
      />
      <AmountInput
        label={`The most that it approves in a day, in ${currency}`}
        currency={currency}
        value={per_day}
        onChange={setPerDay}
        required
      />
      <Select
        label="The missing money comes from"
        data={sources}
        value={source}
        onChange={(value) => setSource(value === 'team' ? 'team' : 'organization')}
        allowDeselect={false}
      />
    </FormModal>
  );
}

/** Deletes a rule: what it would have approved waits for a person from now on. */
export function DeleteRuleDialog({
  rule,
  onClose,
}: {
  rule: ApprovalRule | undefined;
  onClose: () => void;
}) {
  const submit = async () => {
    if (rule === undefined) return;
    await call('DELETE /api/approval-rules/:id', { names: { id: rule.id } });
    void refresh('/api/approval-rules');
    notifications.show({ message: `The rule ${rule.name} is deleted.` });
    onClose();
  };
  return (
    <FormModal
      title={`Delete ${rule?.name ?? ''}`}
      opened={rule !== undefined}
      onClose={onClose}
      submit={submit}
      label="Delete"
      is_dangerous
    >
      <Text>Calls that it would have approved wait for a person from now on.</Text>
    </FormModal>
  );
}
