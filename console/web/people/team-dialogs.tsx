import { Button, Group, Stack, Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { type Found, MemberSelect } from '../fields/member-select';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { DataTable } from '../parts/data-table';
import { Dialog } from '../parts/dialog';
import { FormModal } from '../parts/form-modal';
import { NAMES } from '../parts/names';
import { Empty } from '../parts/states';
import { useLast } from '../parts/use-last';
import { ledTeams, may, useMe } from '../session/me';
import { DoomedKeys } from './doomed-keys';
import { TeamMoney, TeamMoneyButtons, type TeamMove } from './team-money';
import type { Team } from './words';

const TEAMS = '/api/organizations/:id/teams';

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
      {shown && <Inside team={shown} />}
    </Dialog>
  );
}

function Inside({ team }: { team: Team }) {
  const me = useMe();
  const id = me.acting_org ?? '';
  const is_manager = may(me, 'org:members') && team.archived_at === null;
  const moves_money =
    team.archived_at === null && (may(me, 'org:billing') || ledTeams(me).includes(team.id));
  const [cursor, setCursor] = useState<string>();
  const [move, setMove] = useState<TeamMove>();
  const [taken, setTaken] = useState<Taken>();
  const query = useQuery(
    reading('GET /api/organizations/:id/teams/:team_id/members', {
      names: { id, team_id: team.id },
      query: { cursor: cursor ?? 'first', per_page: 20, sort: 'name' },
    }),
  );
  const change = (work: () => Promise<unknown>) =>
    void act(async () => {
      await work();
      await refresh(TEAMS, '/api/organizations/:id/members', '/api/keys');
    });
  const at = (user_id: string) => ({ id, team_id: team.id, user_id });
  const one = '/api/organizations/:id/teams/:team_id/members/:user_id' as const;
  return (
    <Stack>
      {is_manager && <TakeIn team={team} change={change} />}
      <DataTable
        label={`Members of ${team.name}`}
        query={query}
        itemsOf={({ members }) => members}
        keyOf={({ user_id }) => user_id}
        columns={[
          { title: 'Name', cell: ({ name }) => <span className="wrap">{name}</span> },
          {
            title: 'In the team',
            cell: ({ role }) => <State word={role} kind={role === 'admin' ? 'info' : 'neutral'} />,
          },
        ]}
        cursor={cursor}
        onCursor={setCursor}
        empty={<Empty title="Nobody is in this team" />}
        actions={
          is_manager || moves_money
            ? ({ user_id, role, name }) => (
                <>
                  {moves_money && <TeamMoneyButtons member={{ user_id, name }} onMove={setMove} />}
                  {is_manager && (
                    <>
                      <Button
                        size="compact-sm"
                        variant="default"
                        onClick={() => {
                          const next = role === 'admin' ? 'member' : 'admin';
                          change(() =>
                            call(`PUT ${one}`, { names: at(user_id), body: { role: next } }),
                          );
                        }}
                      >
                        {role === 'admin' ? 'Make a member' : 'Make its admin'}
                      </Button>
                      <Button
                        size="compact-sm"
                        variant="default"
                        aria-label={`Take out ${name}`}
                        onClick={() => setTaken({ user_id, name })}
                      >
                        Take out
                      </Button>
                    </>
                  )}
                </>
              )
            : undefined
        }
      />
      <TeamMoney team={team} move={move} onClose={() => setMove(undefined)} />
      <TakeOut team={team} member={taken} onClose={() => setTaken(undefined)} />
      {is_manager && (
        <Text size="sm" c="dimmed">
          Whoever is taken out loses their keys for this team. Its admins move its money and decide
          its tickets.
        </Text>
      )}
    </Stack>
  );
}

interface Taken {
  user_id: string;
  name: string;
}

/** Takes a member out of the team, after it was said which keys end. */
function TakeOut({
  team,
  member,
  onClose,
}: {
  team: Team;
  member: Taken | undefined;
  onClose: () => void;
}) {
  const id = useMe().acting_org ?? '';
  const shown = useLast(member);
  const submit = async () => {
    if (member === undefined) return;
    await call('DELETE /api/organizations/:id/teams/:team_id/members/:user_id', {
      names: { id, team_id: team.id, user_id: member.user_id },
    });
    void refresh(TEAMS, '/api/organizations/:id/members', '/api/keys');
    notifications.show({ message: `${member.name} is not in ${team.name} any more.` });
    onClose();
  };
  return (
    <FormModal
      title={`Take ${shown?.name ?? ''} out of ${team.name}`}
      opened={member !== undefined}
      onClose={onClose}
      submit={submit}
      label="Take out"
      is_dangerous
    >
      <Text>Calls under way finish. All keys that they have for this team end:</Text>
      {member && <DoomedKeys of={{ team_id: team.id, user_id: member.user_id }} />}
    </FormModal>
  );
}

/** Takes a member of the organization into the team; the server searches them by name. */
function TakeIn({ team, change }: { team: Team; change: (work: () => Promise<unknown>) => void }) {
  const id = useMe().acting_org ?? '';
  const [member, setMember] = useState<Found | null>(null);
  return (
    <Group align="flex-end" gap="xs">
      <MemberSelect label="Take in" value={member} onChange={setMember} flex={1} />
      <Button
        disabled={member === null}
        onClick={() => {
          if (member === null) return;
          change(() =>
            call('POST /api/organizations/:id/teams/:team_id/members', {
              names: { id, team_id: team.id },
              body: { user_id: member.id },
            }),
          );
          setMember(null);
        }}
      >
        Take in
      </Button>
    </Group>
  );
}
