import { Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { refresh } from '../api/queries';
import { FormModal } from '../parts/form-modal';
import { NAMES } from '../parts/names';
import { useLast } from '../parts/use-last';

export type Organization = Answer<'GET /api/organizations'>['organizations'][number];

/** What operators do with an organization, and what comes of it. */
export const changes = {
  rename: { label: 'Rename', about: '', done: 'is its name now', is_dangerous: false },
  suspend: {
    label: 'Suspend',
    about:
      'All its keys and people are refused, at the API and at gateways. Its money stays, and calls under way settle.',
    done: 'is suspended',
    is_dangerous: true,
  },
  unsuspend: {
    label: 'Reactivate',
    about: 'Its keys and people are let in again.',
    done: 'is active again',
    is_dangerous: false,
  },
  archive: {
    label: 'Archive',
    about:
      'Its keys are revoked for good, its sessions end, and nobody can open it. It must have no money, holds, tickets or payments left.',
    done: 'is archived',
    is_dangerous: true,
  },
  unarchive: {
    label: 'Restore',
    about: 'Its people have access again; its keys stay revoked.',
    done: 'is restored',
    is_dangerous: false,
  },
} as const;
export type Change = keyof typeof changes;

/** Does one of these things, after it was said what comes of it. */
export function ChangeOrganization({
  change,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  change: { of: Organization; what: Change } | undefined;
  onClose: () => void;
}) {
  const shown = useLast(change);
  const [typed, setTyped] = useState('');
  useEffect(() => {
    if (change !== undefined) setTyped(change.what === 'rename' ? change.of.name : '');
  }, [change]);
  if (shown === undefined) return null;
  const { of, what } = shown;
  const { label, about, done, is_dangerous } = changes[what];
  const given = typed.trim();
  const submit = async (idempotency_key: string) => {
    await send({ id: of.id, what, given, idempotency_key });
    void refresh('/api/organizations', NAMES);
    notifications.show({ message: `${what === 'rename' ? given : of.name} ${done}.` });
    onClose();
  };
  return (
    <FormModal
      title={`${label}: ${of.name}`}
      opened={change !== undefined}
      onClose={onClose}
      submit={submit}
      label={label}
      is_dangerous={is_dangerous}
      is_ready={isReady(what, given, of.name)}
    >
      {about && <Text>{about}</Text>}
      {what in fields && (
        <TextInput
          label={what === 'archive' ? `Type ${of.name} to go on` : fields[what]}
          description={
            what === 'suspend' ? 'Optional; shown in this list and in the audit log.' : undefined
          }
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          maxLength={what === 'rename' ? 200 : 1_000}
          required={what === 'rename'}
          data-autofocus
        />
      )}
    </FormModal>
  );
}

/** What is typed before it is done. */
const fields: Partial<Record<Change, string>> = { rename: 'Name', suspend: 'Reason', archive: '' };

/** No key comes back of what is archived: its name is typed, as that of a key that is revoked. */
function isReady(what: Change, given: string, name: string): boolean {
  if (what === 'archive') return given === name.trim();
  return what !== 'rename' || (given !== '' && given !== name);
}

function send({
  id,
  what,
  given,
  idempotency_key,
}: {
  id: string;
  what: Change;
  given: string;
  idempotency_key: string;
}): Promise<unknown> {
  const names = { id };
  if (what === 'rename')
    return call('PATCH /api/organizations/:id', { names, body: { name: given }, idempotency_key });
  if (what === 'suspend') {
    const body = given === '' ? {} : { reason: given };
    return call('POST /api/organizations/:id/suspend', { names, body, idempotency_key });
  }
  return call(`POST /api/organizations/:id/${what}`, { names, idempotency_key });
}
