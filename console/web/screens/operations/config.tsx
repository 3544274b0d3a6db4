import { Button, Group, Text, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reading } from '../../api/queries';
import { text, useFilters } from '../../fields/filters';
import { ChangesDialog } from '../../operations/changes';
import { inForce } from '../../operations/configuration-text';
import { BackToFiles, NewVersion } from '../../operations/new-version';
import { OnlyOperators } from '../../operations/only-operators';
import { RefusedVersion } from '../../operations/refused-version';
import { RollOut, Rollouts } from '../../operations/rollouts';
import type { Version } from '../../operations/words';
import { State } from '../../parts/badge';
import { CopyId } from '../../parts/copy-id';
import { type Column, DataTable } from '../../parts/data-table';
import { LinkButton } from '../../parts/link';
import { Name, PersonName } from '../../parts/names';
import { Page } from '../../parts/page';
import { Empty } from '../../parts/states';
import { Time } from '../../parts/time';

const columns: Column<Version>[] = [
  { title: 'Version', cell: ({ version }) => version },
  { title: 'Note', cell: ({ note }) => <span className="wrap">{note ?? '–'}</span> },
  { title: 'By', cell: ({ created_by }) => <Maker id={created_by} /> },
  { title: 'Made', cell: ({ created_at }) => <Time at={created_at} /> },
  {
    title: 'Content',
    cell: ({ config, config_hash }) =>
      config === null ? 'their own files' : config_hash && <CopyId value={config_hash} />,
  },
  {
    title: 'How',
    cell: ({ is_staged }) =>
      is_staged ? <State word="by rollout" kind="info" /> : <State word="to all" kind="neutral" />,
  },
];

/** A person by name; an operator's key, which stands for nobody, says so. */
function Maker({ id }: { id: string }) {
  if (!id.startsWith('key_')) return <PersonName id={id} />;
  return (
    <Group gap={4}>
      an operator: <Name id={id} />
    </Group>
  );
}

/** Versions of the gateways' configuration, what each changed, and their rollouts. */
export function Config() {
  return (
    <OnlyOperators title="Configuration">
      <Inside />
    </OnlyOperators>
  );
}

function Inside() {
  const [{ page = '1' }, set] = useFilters({ page: text });
  const number = Number(page) || 1;
  const { data: current } = useQuery(reading('GET /api/gateway-config'));
  const query = useQuery(
    reading('GET /api/gateway-config/versions', { query: { page: number, per_page: 20 } }),
  );
  const [is_making, making] = useDisclosure();
  const [is_withdrawing, withdrawing] = useDisclosure();
  const { data: newest } = useQuery(
    reading('GET /api/gateway-config/versions', { query: { page: 1, per_page: 20 } }),
  );
  const { data: fleet } = useQuery(reading('GET /api/gateways'));
  const base = current && newest && fleet && inForce(current, fleet.gateways, newest.versions);
  const [seen, setSeen] = useState<Version>();
  const [rolled, setRolled] = useState<Version>();
  const turn = (next: number) => set({ page: next === 1 ? undefined : String(next) });
  return (
    <Page
      title="Configuration"
      about={
        fleet &&
        `Gateways are to run ${base?.config ? `version ${base.version}` : 'their own files'}.`
      }
      actions={
        <>
          <LinkButton to="/gateways" variant="default">
            Gateways
          </LinkButton>
          {base?.config && (
            <Button variant="default" onClick={withdrawing.open}>
              Back to files
            </Button>
          )}
          <Button onClick={making.open} disabled={!current || !newest || !fleet}>
            New version
          </Button>
        </>
      }
    >
      <RefusedVersion />
      <Title order={2} size="h4">
        Rollouts
      </Title>
      <Rollouts />
      <Title order={2} size="h4">
        Versions
      </Title>
      <DataTable
        label="Versions"
        query={query}
        itemsOf={({ versions }) => versions}
        keyOf={({ version }) => String(version)}
        columns={columns}
        empty={<Empty title="No version yet">Each gateway runs its own file.</Empty>}
        actions={(version) => (
          <>
            <Button
              size="compact-sm"
              variant="default"
              aria-label={`What changed in version ${version.version}`}
              onClick={() => setSeen(version)}
            >
              What changed
            </Button>
            {version.config !== null && (
              <Button size="compact-sm" variant="default" onClick={() => setRolled(version)}>
                Roll out
              </Button>
            )}
          </>
        )}
      />
      {(number > 1 || query.data?.has_more) && (
        <Group justify="flex-end" gap="xs">
          <Button
            variant="default"
            size="xs"
            disabled={number === 1}
            onClick={() => turn(number - 1)}
          >
            Newer
          </Button>
          <Button
            variant="default"
            size="xs"
            disabled={!query.data?.has_more}
            onClick={() => turn(number + 1)}
          >
            Older
          </Button>
        </Group>
      )}
      <Text size="sm" c="dimmed">
        The way back is a rollout of an older version, which gateways take at once, or their own
        files.
      </Text>
      <NewVersion opened={is_making} current={base} onClose={making.close} />
      <BackToFiles opened={is_withdrawing} onClose={withdrawing.close} />
      <ChangesDialog version={seen} onClose={() => setSeen(undefined)} />
      <RollOut version={rolled} onClose={() => setRolled(undefined)} />
    </Page>
  );
}
