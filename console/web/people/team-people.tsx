import { Button, Group, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { nextOf, PART_ROWS, type ReadPart } from '../api/whole';
import type { AnyColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import { type Found, MemberSelect } from '../fields/member-select';
import { act } from '../parts/act';
import { State } from '../parts/badge';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { Money } from '../parts/money';
import { Empty } from '../parts/states';
import { useLast } from '../parts/use-last';
import { ledTeams, type Me, may, useCurrency, useMe } from '../session/me';
import { DoomedKeys } from './doomed-keys';
import { TeamMoney, TeamMoneyButtons, type TeamMove } from './team-money';
import { TEAMS, type Team } from './words';

type Person = Answer<'GET /api/organizations/:id/teams/:team_id/members'>['members'][number];

/**
 * Who is in a team, and as what; to its admins and who bills with what is left of the team's gifts,
 * which they give and take back here.
 */
export function TeamPeople({ team }: { team: Team }) {
  const me = useMe();
  const id = me.acting_org ?? '';
  const is_manager = may(me, 'org:members') && team.archived_at === null;
  const moves_money = movesMoneyOf(me, team);
  const currency = useCurrency();
  const [cursor, setCursor] = useState<string>();
  const [move, setMove] = useState<TeamMove>();
  const [taken, setTaken] = useState<Taken>();
  const query = useQuery(
    reading('GET /api/organizations/:id/teams/:team_id/members', {
      names: { id, team_id: team.id },
      query: {
        cursor: cursor ?? 'first',
        per_page: 20,
        sort: 'name',
        ...(moves_money ? { with_given_left: 'true' } : {}),
      },
    }),
  );
  const read: ReadPart<Person> = async (place = 'first') => {
    const answer = await call('GET /api/organizations/:id/teams/:team_id/members', {
      names: { id, team_id: team.id },
      query: {
        cursor: place,
        per_page: PART_ROWS,
        sort: 'name',
        ...(moves_money ? { with_given_left: 'true' } : {}),
      },
    });
    return { items: answer.members, next: nextOf(answer) };
  };
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
      <Group justify="flex-end">
        <CsvButton file="team" read={read} columns={csvOf(currency)} />
      </Group>
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
          ...(moves_money ? [givenColumn(currency)] : []),
        ]}
        cursor={cursor}
        onCursor={setCursor}
        empty={<Empty title="This team has no members" />}
        actions={
          is_manager || moves_money
            ? ({ user_id, role, name, given_left }) => (
                <>
                  {moves_money && (
                    <TeamMoneyButtons member={{ user_id, name, given_left }} onMove={setMove} />
                  )}
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
                        aria-label={`Remove ${name}`}
                        onClick={() => setTaken({ user_id, name })}
                      >
                        Remove
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
      {moves_money && (
        <Text size="sm" c="dimmed">
          What a member spends comes out of what the team gave first; the rest may be taken back.
        </Text>
      )}
      {is_manager && (
        <Text size="sm" c="dimmed">
          Whoever is taken out loses their keys for this team. Its admins move its money and decide
          its tickets.
        </Text>
      )}
    </Stack>
  );
}

/** True for whoever may give the money of a team to its members: who bills, and its admins. */
export function movesMoneyOf(
  me: Me,
  { id, archived_at }: Pick<Team, 'id' | 'archived_at'>,
): boolean {
  return archived_at === null && (may(me, 'org:billing') || ledTeams(me).includes(id));
}

function givenColumn(currency: string): Column<{ given_left: number | null }> {
  return {
    title: 'Left of the team’s money',
    is_number: true,
    cell: ({ given_left }) =>
      given_left === null ? '' : <Money amount={given_left} currency={currency} />,
  };
}

function csvOf(currency: string): AnyColumn<Person>[] {
  return [
    { title: 'user_id', text: ({ user_id }) => user_id },
    { title: 'name', text: ({ name }) => name },
    { title: 'role', text: ({ role }) => role },
    {
      title: 'given_left',
      text: ({ given_left }) => (given_left === null ? null : decimalText(given_left)),
    },
    { title: 'currency', text: ({ given_left }) => (given_left === null ? null : currency) },
  ];
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
      label="Remove"
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
      <MemberSelect label="Add member" value={member} onChange={setMember} flex={1} />
      <Button
        disabled={member === null}
        onClick={() => {
          if (member === null) return;
          change(async () => {
            await call('POST /api/organizations/:id/teams/:team_id/members', {
              names: { id, team_id: team.id },
              body: { user_id: member.id },
            });
            setMember(null);
          });
        }}
      >
        Add member
      </Button>
    </Group>
  );
}
