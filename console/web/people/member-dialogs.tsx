import {
  Alert,
  Button,
  Code,
  CopyButton,
  Group,
  Select,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { refresh } from '../api/queries';
import { Dialog } from '../parts/dialog';
import { FormModal } from '../parts/form-modal';
import { Time } from '../parts/time';
import { useLast } from '../parts/use-last';
import { useMe } from '../session/me';
import { DoomedKeys } from './doomed-keys';
import { type Member, type Role, roles } from './words';

interface OfMember {
  /** Undefined: the dialog is closed. */
  member: Member | undefined;
  onClose: () => void;
}

const choices = roles.map(({ value, label, about }) => ({ value, label: `${label}: ${about}` }));
const PEOPLE = '/api/organizations/:id/members';

/** Takes in a new person by name. */
export function AddMember({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const id = useMe().acting_org ?? '';
  const [name, setName] = useState('');
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<Role>('member');
  useEffect(() => {
    if (!opened) return;
    setName('');
    setEmail('');
    setRole('member');
  }, [opened]);
  const submit = async (idempotency_key: string) => {
    const body = { name: name.trim(), role, ...(email.trim() ? { email: email.trim() } : {}) };
    await call('POST /api/organizations/:id/members', { names: { id }, body, idempotency_key });
    void refresh(PEOPLE);
    notifications.show({ message: `${body.name} is a member now. Invite them to sign in.` });
    onClose();
  };
  return (
    <FormModal
      title="A new member"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Add member"
      is_ready={name.trim() !== ''}
    >
      <TextInput
        label="Name"
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        data-autofocus
        required
      />
      <TextInput
        label="E-mail address"
        description="Optional; the list is searched by it."
        type="email"
        value={email}
        onChange={(event) => setEmail(event.currentTarget.value)}
      />
      <RoleSelect value={role} onChange={setRole} />
    </FormModal>
  );
}

function RoleSelect({ value, onChange }: { value: Role; onChange: (role: Role) => void }) {
  return (
    <Select
      label="Role"
      data={choices}
      value={value}
      onChange={(role) => onChange((role ?? 'member') as Role)}
      allowDeselect={false}
    />
  );
}

/** Gives a member another role; a role of less revokes the keys that they made. */
export function ChangeRole({ member, onClose }: OfMember) {
  const id = useMe().acting_org ?? '';
  const shown = useLast(member);
  const [role, setRole] = useState<Role>('member');
  useEffect(() => {
    if (member !== undefined) setRole(member.role);
  }, [member]);
  const submit = async (idempotency_key: string) => {
    if (shown === undefined) return;
    const { revoked_keys } = await call('PUT /api/organizations/:id/members/:user_id', {
      names: { id, user_id: shown.user_id },
      body: { role },
      idempotency_key,
    });
    void refresh(PEOPLE, '/api/keys');
    notifications.show({ message: `${shown.name} is ${role} now. ${goneWords(revoked_keys)}` });
    onClose();
  };
  return (
    <FormModal
      title={`The role of ${shown?.name ?? ''}`}
      opened={member !== undefined}
      onClose={onClose}
      submit={submit}
      label="Change the role"
      is_ready={role !== shown?.role}
    >
      <RoleSelect value={role} onChange={setRole} />
      <Text size="sm">
        Their keys do no more than the new role from now on. A role of less revokes the keys that
        they made; a role of more revokes those that somebody else made for them.
      </Text>
    </FormModal>
  );
}

/** Removes a member, after it was said which keys end. */
export function RemoveMember({ member, onClose }: OfMember) {
  const id = useMe().acting_org ?? '';
  const shown = useLast(member);
  const submit = async () => {
    if (shown === undefined) return;
    const { revoked_keys } = await call('DELETE /api/organizations/:id/members/:user_id', {
      names: { id, user_id: shown.user_id },
    });
    void refresh(PEOPLE, '/api/keys');
    notifications.show({ message: `${shown.name} was removed. ${goneWords(revoked_keys)}` });
    onClose();
  };
  return (
    <FormModal
      title={`Remove ${shown?.name ?? ''}`}
      opened={member !== undefined}
      onClose={onClose}
      submit={submit}
      label="Remove"
      is_dangerous
    >
      <Text>
        They leave all teams and are signed out. What is in their wallet stays there. Keys that
        stand for them, and keys that they made, end:
      </Text>
      {member && <DoomedKeys of={{ user_id: member.user_id, with_made: true }} />}
    </FormModal>
  );
}

function goneWords(keys: readonly unknown[]): string {
  if (keys.length === 0) return 'No key was revoked.';
  return keys.length === 1 ? '1 key was revoked.' : `${keys.length} keys were revoked.`;
}

type Invitation = Answer<'POST /api/organizations/:id/members/:user_id/invitations'>;

/** Makes a link that binds whoever signs in by it to this member; it is shown once. */
export function Invite({ member, onClose }: OfMember) {
  const id = useMe().acting_org ?? '';
  const shown = useLast(member);
  const [made, setMade] = useState<Invitation>();
  useEffect(() => {
    if (member !== undefined) setMade(undefined);
  }, [member]);
  const submit = async (idempotency_key: string) => {
    if (shown === undefined) return;
    const names = { id, user_id: shown.user_id };
    setMade(
      await call('POST /api/organizations/:id/members/:user_id/invitations', {
        names,
        idempotency_key,
      }),
    );
  };
  if (made === undefined)
    return (
      <FormModal
        title={`Invite ${shown?.name ?? ''}`}
        opened={member !== undefined}
        onClose={onClose}
        submit={submit}
        label="Create invitation"
      >
        <Text>
          You get a link. Whoever opens it and signs in at your identity provider becomes this
          member. It works once, within a week. Send it to nobody else.
        </Text>
      </FormModal>
    );
  // Behind the #, so that no server and no log on the way has it.
  const link = `${location.origin}/login#invitation=${made.invitation}`;
  return (
    <Dialog
      opened={member !== undefined}
      onClose={onClose}
      title={`The invitation of ${shown?.name ?? ''}`}
      is_closable={false}
    >
      <Stack>
        <Alert color="yellow" title="Copy it now">
          It is shown only here. It ends <Time at={made.expires_at} />.
        </Alert>
        <Code block className="wrap" data-testid="invitation">
          {link}
        </Code>
        <Group justify="flex-end">
          <CopyButton value={link}>
            {({ copied, copy }) => (
              <Button onClick={copy}>{copied ? 'Copied' : 'Copy the link'}</Button>
            )}
          </CopyButton>
          <Button variant="default" onClick={onClose}>
            I have copied it
          </Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
