import { Tabs } from '@mantine/core';
import { dayShape } from '../fields/day-range';
import { oneOf, text, useFilters } from '../fields/filters';
import { NotSeen } from '../parts/guarded';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { may, useMe } from '../session/me';
import { AuditLog } from '../settings/audit-log';
import { Budgets } from '../settings/budgets';
import { Notices } from '../settings/notices';
import { Organization } from '../settings/organization';
import { ProviderKeys } from '../settings/provider-keys';
import { Sessions } from '../settings/sessions';
import { TopUps } from '../settings/top-ups';

const tabs = [
  'sessions',
  'budgets',
  'organization',
  'top-ups',
  'provider-keys',
  'notices',
  'audit',
] as const;
const shape = {
  tab: oneOf(...tabs),
  q: text,
  owner_type: oneOf('key', 'user', 'team', 'organization'),
  actor_type: oneOf('user', 'key', 'platform', 'system'),
  action: text,
  object_id: text,
  actor: text,
  ...dayShape,
  message_status: oneOf('waiting', 'delivered', 'failed'),
  page: text,
  cursor: text,
};

const auditing = ['org:members', 'org:billing'] as const;

/** What is the person's own, what the organization has agreed on, and who changed what. */
export function Settings() {
  const me = useMe();
  const [{ tab = 'sessions', ...filters }, set] = useFilters(shape);
  const in_org = me.acting_org !== null;
  const bills = may(me, 'org:billing');
  const audits = auditing.some((right) => may(me, right));
  const turn = (value: string | null) => {
    const none = Object.fromEntries(Object.keys(filters).map((name) => [name, undefined]));
    set({ ...none, tab: oneOf(...tabs)(value) });
  };
  return (
    <Page title="Settings">
      <Tabs value={tab} onChange={turn} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="sessions">My sessions</Tabs.Tab>
          {in_org && <Tabs.Tab value="budgets">Budgets</Tabs.Tab>}
          {in_org && <Tabs.Tab value="organization">Organization</Tabs.Tab>}
          {in_org && bills && <Tabs.Tab value="top-ups">Top-ups</Tabs.Tab>}
          {in_org && bills && <Tabs.Tab value="provider-keys">Provider keys</Tabs.Tab>}
          {bills && <Tabs.Tab value="notices">Notices</Tabs.Tab>}
          {audits && <Tabs.Tab value="audit">Audit log</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="sessions">
          <Sessions />
        </Tabs.Panel>
        <Tabs.Panel value="budgets">
          {in_org ? <Budgets filters={filters} set={set} /> : <NoOrganization />}
        </Tabs.Panel>
        <Tabs.Panel value="organization">
          {in_org ? <Organization /> : <NoOrganization />}
        </Tabs.Panel>
        <Tabs.Panel value="top-ups">
          {!in_org && <NoOrganization />}
          {in_org && (bills ? <TopUps /> : <NotSeen rights={['org:billing']} />)}
        </Tabs.Panel>
        <Tabs.Panel value="provider-keys">
          {!in_org && <NoOrganization />}
          {in_org && (bills ? <ProviderKeys /> : <NotSeen rights={['org:billing']} />)}
        </Tabs.Panel>
        <Tabs.Panel value="notices">
          {bills ? <Notices filters={filters} set={set} /> : <NotSeen rights={['org:billing']} />}
        </Tabs.Panel>
        <Tabs.Panel value="audit">
          {audits ? <AuditLog filters={filters} set={set} /> : <NotSeen rights={auditing} />}
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

function NoOrganization() {
  return <Empty title="Choose an organization">Choose one in the menu at the top.</Empty>;
}
