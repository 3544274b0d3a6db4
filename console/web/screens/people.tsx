import { Button, Tabs } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { oneOf, text, useFilters } from '../fields/filters';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { AddMember } from '../people/member-dialogs';
import { Members } from '../people/members';
import { TeamName } from '../people/team-dialogs';
import { Teams } from '../people/teams';
import { may, useMe } from '../session/me';

const shape = {
  tab: oneOf('members', 'teams'),
  q: text,
  role: oneOf('owner', 'admin', 'billing_admin', 'member'),
  team_id: text,
  status: oneOf('active', 'archived'),
  cursor: text,
};

/** Who belongs to the organization, as what, and in which teams. */
export function People() {
  const me = useMe();
  if (me.acting_org !== null) return <Inside />;
  return (
    <Page title="People">
      <Empty title="Choose an organization">Choose one in the menu at the top.</Empty>
    </Page>
  );
}

function Inside() {
  const me = useMe();
  const [{ tab = 'members', ...filters }, set] = useFilters(shape);
  const [is_adding, adding] = useDisclosure();
  const [is_making, making] = useDisclosure();
  const is_manager = may(me, 'org:members');
  const action =
    tab === 'members' ? (
      <Button onClick={adding.open}>New member</Button>
    ) : (
      <Button onClick={making.open}>New team</Button>
    );
  // What is sought in one list is not sought in the other.
  const turn = (value: string | null) =>
    set({
      tab: value === 'teams' ? 'teams' : undefined,
      q: undefined,
      role: undefined,
      team_id: undefined,
      status: undefined,
    });
  return (
    <Page
      title="People"
      about="Who belongs to the organization, and in which teams."
      actions={is_manager && action}
    >
      <Tabs value={tab} onChange={turn} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="members">Members</Tabs.Tab>
          <Tabs.Tab value="teams">Teams</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="members">
          <Members filters={filters} set={set} />
        </Tabs.Panel>
        <Tabs.Panel value="teams">
          <Teams filters={filters} set={set} />
        </Tabs.Panel>
      </Tabs>
      <AddMember opened={is_adding} onClose={adding.close} />
      <TeamName opened={is_making} team={undefined} onClose={making.close} />
    </Page>
  );
}
