import { TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { changedIn } from '../base/changed';
import { FormModal } from '../parts/form-modal';
import { NAMES } from '../parts/names';
import { useLast } from '../parts/use-last';
import { useMe } from '../session/me';
import type { Member } from './words';

/** Gives a member another name or address. Whoever signs in as them does so as before. */
export function RenameMember({
  member,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  member: Member | undefined;
  onClose: () => void;
}) {
  const id = useMe().acting_org ?? '';
  const shown = useLast(member);
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  useEffect(() => {
    if (member === undefined) return;
    setName(member.name);
    setEmail(member.email ?? '');
  }, [member]);
  const given = { name: name.trim(), email: email.trim() === '' ? null : email.trim() };
  const changed = shown === undefined ? {} : changedIn(given, shown);
  const submit = async (idempotency_key: string) => {
    if (shown === undefined) return;
    await call('PATCH /api/organizations/:id/members/:user_id', {
      names: { id, user_id: shown.user_id },
      body: changed,
      idempotency_key,
    });
    void refresh('/api/organizations/:id/members', NAMES, '/api/wallets', '/api/me');
    notifications.show({ message: `${given.name} is saved.` });
    onClose();
  };
  return (
    <FormModal
      title={`Name and address of ${shown?.name ?? ''}`}
      opened={member !== undefined}
      onClose={onClose}
      submit={submit}
      label="Save"
      is_ready={given.name !== '' && Object.keys(changed).length > 0}
      fields={['name', 'email']}
    >
      {(refusedAt) => (
        <>
          <TextInput
            label="Name"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={refusedAt('name')}
            maxLength={200}
            data-autofocus
            required
          />
          <TextInput
            label="E-mail"
            description="Empty: none."
            type="email"
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
            error={refusedAt('email')}
            maxLength={320}
          />
        </>
      )}
    </FormModal>
  );
}
