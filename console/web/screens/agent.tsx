import { Alert, Button, Group, Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { Caps } from '../agents/caps';
import { AgentName, ArchiveAgent } from '../agents/dialogs';
import { AgentKeys } from '../agents/keys';
import type { Agent as Shown } from '../agents/words';
import { reading } from '../api/queries';
import { oneOf, text, useFilters } from '../fields/filters';
import { CopyId } from '../parts/copy-id';
import { Guarded } from '../parts/guarded';
import { LinkButton } from '../parts/link';
import { Page } from '../parts/page';
import { Empty, Failure, Loading } from '../parts/states';
import { Time } from '../parts/time';
import { may, useMe } from '../session/me';

const shape = { tab: oneOf('caps', 'keys'), cursor: text };

/** One agent: its caps as they stand, its keys with their budgets, and the way to its spend. */
export function Agent() {
  const { acting_org } = useMe();
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  if (acting_org === null)
    return (
      <Page title="Agent">
        <Empty title="Choose an organization">Choose one in the menu at the top.</Empty>
      </Page>
    );
  return (
    <Guarded title="Agent" rights={['agents:read']}>
      <Read org_id={acting_org} id={id} />
    </Guarded>
  );
}

function Read({ org_id, id }: { org_id: string; id: string }) {
  const { data, error, refetch } = useQuery(
    reading('GET /api/organizations/:id/agents/:agent_id', { names: { id: org_id, agent_id: id } }),
  );
  if (error && data === undefined)
    return (
      <Page title="Agent">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  return data === undefined ? <Loading /> : <Inside agent={data} />;
}

function Inside({ agent }: { agent: Shown }) {
  const me = useMe();
  const [filters, set] = useFilters(shape);
  const [dialog, setDialog] = useState<'rename' | 'archive'>();
  const is_manager = may(me, 'agents:write') && agent.archived_at === null;
  const sees_keys = may(me, 'tokens:write');
  const tab = sees_keys ? (filters.tab ?? 'caps') : 'caps';
  const close = () => setDialog(undefined);
  return (
    <Page
      title={agent.name}
      about={
        <Group gap="xs" component="span">
          <CopyId value={agent.id} /> <Time at={agent.created_at} />
        </Group>
      }
      actions={
        <>
          {may(me, 'org:billing') && (
            <LinkButton to="/spend" search={{ agent_id: agent.id, by: 'model' }} variant="default">
              Its spend
            </LinkButton>
          )}
          {is_manager && (
            <>
              <Button variant="default" onClick={() => setDialog('rename')}>
                Rename
              </Button>
              <Button variant="default" onClick={() => setDialog('archive')}>
                Archive
              </Button>
            </>
          )}
        </>
      }
    >
      {agent.archived_at !== null && (
        <Alert color="gray" title="It is archived">
          Its keys have ended and its caps are gone, since <Time at={agent.archived_at} />. What it
          has cost stays in spend.
        </Alert>
      )}
      <Tabs
        value={tab}
        onChange={(value) => set({ tab: value === 'keys' ? 'keys' : undefined })}
        keepMounted={false}
      >
        <Tabs.List mb="md">
          <Tabs.Tab value="caps">Caps</Tabs.Tab>
          {sees_keys && <Tabs.Tab value="keys">Keys and budgets</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="caps">
          {agent.archived_at === null ? (
            <Caps agent_id={agent.id} />
          ) : (
            <Empty title="No caps">Nothing of an archived agent is capped.</Empty>
          )}
        </Tabs.Panel>
        {sees_keys && (
          <Tabs.Panel value="keys">
            <AgentKeys
              agent={agent}
              cursor={filters.cursor}
              onCursor={(cursor) => set({ cursor })}
            />
          </Tabs.Panel>
        )}
      </Tabs>
      <AgentName opened={dialog === 'rename'} agent={agent} onClose={close} />
      <ArchiveAgent agent={dialog === 'archive' ? agent : undefined} onClose={close} />
    </Page>
  );
}
