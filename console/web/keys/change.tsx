import { Select, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { FormModal } from '../parts/form-modal';
import { NAMES } from '../parts/names';
import type { NewKey } from './shown-once';

interface Dialog {
  /** The key's name; undefined: the dialog is closed. */
  name: string | undefined;
  onClose: () => void;
}

/** Revokes a key, after its name was typed: programs that use it stop at once. */
export function RevokeDialog({ name, is_own, onClose }: Dialog & { is_own: boolean }) {
  const [typed, setTyped] = useState('');
  useEffect(() => {
    if (name !== undefined) setTyped('');
  }, [name]);
  const submit = async () => {
    if (name === undefined) return;
    if (is_own) await call('DELETE /api/my-keys/:name', { names: { name } });
    else await call('DELETE /api/keys/:name', { names: { name } });
    void refresh('/api/keys', '/api/my-keys');
    notifications.show({ message: `${name} is revoked.` });
    onClose();
  };
  return (
    <FormModal
      title={`Revoke ${name ?? ''}`}
      opened={name !== undefined}
      onClose={onClose}
      submit={submit}
      label="Revoke"
      is_dangerous
      is_ready={typed === name}
    >
      <Text>Programs that use it are refused from now on. Calls under way finish.</Text>
      <TextInput
        label={`Type ${name ?? ''} to go on`}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
        autoComplete="off"
        data-autofocus
      />
    </FormModal>
  );
}

const A_DAY = '86400';
const overlaps = [
  { value: '0', label: 'at once' },
  { value: '3600', label: 'after an hour' },
  { value: A_DAY, label: 'after a day' },
  { value: '604800', label: 'after a week' },
];

/** Draws a new value of a key; the old one works on for as long as programs need to change. */
export function RotateDialog({
  name,
  is_own,
  onClose,
  onMade,
}: Dialog & { is_own: boolean; onMade: (made: NewKey) => void }) {
  const [overlap, setOverlap] = useState<string | null>(A_DAY);
  // What was chosen for one key says nothing of the next.
  // biome-ignore lint/correctness/useExhaustiveDependencies: with each other key.
  useEffect(() => setOverlap(A_DAY), [name]);
  const submit = async () => {
    if (name === undefined) return;
    const given = { names: { name }, body: { overlap_seconds: Number(overlap) } };
    const made = is_own
      ? await call('POST /api/my-keys/:name/rotate', given)
      : await call('POST /api/keys/:name/rotate', given);
    void refresh('/api/keys', '/api/my-keys', NAMES);
    onClose();
    const is_gateway = made.token_type === 'gateway';
    onMade({ name, key: made.key, is_gateway, allowed_models: made.allowed_models });
  };
  return (
    <FormModal
      title={`Rotate ${name ?? ''}`}
      opened={name !== undefined}
      onClose={onClose}
      submit={submit}
      label="Rotate key"
    >
      <Text>The key keeps its name, budget and limits.</Text>
      <Select
        label="Old key expires"
        data={overlaps}
        value={overlap}
        onChange={setOverlap}
        allowDeselect={false}
      />
    </FormModal>
  );
}
