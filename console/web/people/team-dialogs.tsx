import { Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refresh } from '../api/queries';
import { Dialog } from '../parts/dialog';
import { FormModal } from '../parts/form-modal';
import { NAMES } from '../parts/names';
import { useLast } from '../parts/use-last';
import { useMe } from '../session/me';
import { DoomedKeys } from './doomed-keys';
import { TeamPeople } from './team-people';
import { TEAMS, type Team } from './words';

/** Makes a team, or gives one another name. */
export function TeamName({
  opened,
  team,
  onClose,
}: {
  opened: boolean;
  /** The team that is renamed; undefined: a new one. */
  team: Team | undefined;
  onClose: () => void;
}) {
  const id = useMe().acting_org ?? '';
  const [name, setName] = useState('');
  useEffect(() => {
    if (opened) setName(team?.name ?? '');
  }, [opened, team]);
  const submit = async (idempotency_key: string) => {
    const body = { name: name.trim() };
    if (team === undefined)
      await call('POST /api/organizations/:id/teams', { names: { id }, body, idempotency_key });
    else
      await call('PATCH /api/organizations/:id/teams/:team_id', {
        names: { id, team_id: team.id },
        body,
        idempotency_key,
      });
    void refresh(TEAMS, '/api/wallets', NAMES);
    onClose();
  };
  return (
    <FormModal
      title={team === undefined ? 'A new team' : `Rename ${team.name}`}
      opened={opened}
      onClose={onClose}
      submit={submit}
      label={team === undefined ? 'Make the team' : 'Rename'}
      is_ready={name.trim() !== '' && name.trim() !== team?.name}
    >
      <TextInput
        label="Name"
        description="A team has a wallet once it is given money; until then the organization pays."
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        maxLength={200}
        data-autofocus
        required
      />
    </FormModal>
  );
}

/** Archives a team, after it was said which keys end. */
export function ArchiveTeam({ team, onClose }: { team: Team | undefined; onClose: () => void }) {
  const id = useMe().acting_org ?? '';
  const shown = useLast(team);
  const submit = async () => {
    if (team === undefined) return;
    await call('DELETE /api/organizations/:id/teams/:team_id', { names: { id, team_id: team.id } });
    void refresh(TEAMS, '/api/keys', '/api/wallets');
    notifications.show({ message: `${team.name} is archived.` });
    onClose();
  };
  return (
    <FormModal
      title={`Archive ${shown?.name ?? ''}`}
      opened={team !== undefined}
      onClose={onClose}
      submit={submit}
      label="Archive"
      is_dangerous
    >
      <Text>
        Its money stays in its wallet: take it back to the organization there. Calls under way
        finish. All keys of the team end:
      </Text>
      {team && <DoomedKeys of={{ team_id: team.id }} />}
    </FormModal>
  );
}

/** Who is in a team, and as what. */
export function TeamMembers({ team, onClose }: { team: Team | undefined; onClose: () => void }) {
  const shown = useLast(team);
  return (
    <Dialog
      opened={team !== undefined}
      onClose={onClose}
      title={`The team ${shown?.name ?? ''}`}
      size="lg"
    >
      {shown && <TeamPeople team={shown} />}
    </Dialog>
  );
}
