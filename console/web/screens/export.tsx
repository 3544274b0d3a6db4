import { Anchor, Button, Group, Stack, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { type Answer, call, Refusal } from '../api/client';
import { reading, refresh } from '../api/queries';
import { JoinButtons } from '../exports/join-button';
import { Standing } from '../exports/progress';
import { count, isUnderWay, kinds, periodText, sizeText } from '../exports/words';
import { CopyId } from '../parts/copy-id';
import { keepLarge } from '../parts/file-link';
import { FormModal } from '../parts/form-modal';
import { Guarded } from '../parts/guarded';
import { PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { Failure, Loading } from '../parts/states';
import { Time } from '../parts/time';
import { useZone } from '../session/me';

type Whole = Answer<'GET /api/exports/:id'>;

/** One export: its progress, its files to download, and how long they are kept. */
export function Export() {
  return (
    <Guarded title="Export" rights={['org:billing']}>
      <Inside />
    </Guarded>
  );
}

function Inside() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const zone = useZone();
  const [dialog, setDialog] = useState<'cancel' | 'delete'>();
  const { data, error, refetch } = useQuery({
    ...reading('GET /api/exports/:id', { names: { id } }),
    refetchInterval: ({ state }) => (state.data && !isUnderWay(state.data) ? 60_000 : 1_000),
  });
  if (error && data === undefined)
    return (
      <Page title="Export">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  if (data === undefined) return <Loading />;
  const is_downloadable = data.status === 'completed';
  // What is in a bucket is its owner's to delete.
  const is_deletable = data.status === 'completed' && data.target === 'folder';
  const end = async (idempotency_key: string) => {
    await call('DELETE /api/exports/:id', { names: { id }, idempotency_key });
    // A schedule that waits for room goes on.
    void refresh('/api/exports', '/api/export-schedules');
    setDialog(undefined);
  };
  return (
    <Page
      title={`Export of ${periodText(data, zone)}`}
      about={<CopyId value={id} />}
      actions={
        <>
          {isUnderWay(data) && (
            <Button variant="default" onClick={() => setDialog('cancel')}>
              Cancel it
            </Button>
          )}
          {is_deletable && (
            <Button variant="default" onClick={() => setDialog('delete')}>
              Delete its files
            </Button>
          )}
        </>
      }
    >
      <Group align="flex-start" gap="xl">
        <Standing one={data} />
        <Stack gap={0}>
          <span>
            Made <Time at={data.created_at} /> by <PersonName id={data.created_by} />
          </span>
          {data.expires_at && (
            <span>
              {data.status === 'expired' ? 'Its files were deleted' : 'Its files are kept until'}{' '}
              <Time at={data.expires_at} />
            </span>
          )}
        </Stack>
      </Group>
      <JoinButtons one={data} />
      <Files one={data} is_downloadable={is_downloadable} />
      <FormModal
        title="Cancel this export"
        opened={dialog === 'cancel'}
        onClose={() => setDialog(undefined)}
        submit={end}
        label="Cancel it"
        is_dangerous
      >
        <Text>What was written is deleted.</Text>
      </FormModal>
      <FormModal
        title="Delete the files of this export"
        opened={dialog === 'delete'}
        onClose={() => setDialog(undefined)}
        submit={end}
        label="Delete them"
        is_dangerous
      >
        <Text>Nobody can download them any more. That makes room for another export.</Text>
      </FormModal>
    </Page>
  );
}

function Files({ one, is_downloadable }: { one: Whole; is_downloadable: boolean }) {
  // A day without rows has no file, only its line in the manifest.
  const files = one.files.filter(({ written_at, bytes }) => written_at === null || bytes !== null);
  const empty = one.files.length - files.length;
  return (
    <>
      <FileTable {...{ one, files, is_downloadable }} />
      {empty > 0 && (
        <Text size="sm" c="dimmed">
          {count.format(empty)} days of a kind had no rows, and have no file.
        </Text>
      )}
    </>
  );
}

function FileTable({
  one,
  files,
  is_downloadable,
}: {
  one: Whole;
  files: Whole['files'];
  is_downloadable: boolean;
}) {
  return (
    <Table.ScrollContainer minWidth={0} type="native" className="table">
      <Table aria-label="Files" verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>File</Table.Th>
            <Table.Th>Day, in UTC</Table.Th>
            <Table.Th ta="right">Rows</Table.Th>
            <Table.Th ta="right">Size</Table.Th>
            <Table.Th>SHA-256</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {files.map((file) => (
            <Table.Tr key={file.n}>
              <Table.Td data-title="File">
                <FileName {...{ one, file, is_downloadable }} />
              </Table.Td>
              <Table.Td data-title="Day">{file.day ?? 'all'}</Table.Td>
              <Table.Td data-title="Rows" ta="right">
                {file.kind === 'manifest' ? '–' : count.format(file.rows)}
              </Table.Td>
              <Table.Td data-title="Size" ta="right">
                {file.bytes === null ? '–' : sizeText(file.bytes)}
              </Table.Td>
              <Table.Td data-title="SHA-256">
                {file.sha256 ? <CopyId value={file.sha256} /> : '–'}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

function FileName({
  one,
  file,
  is_downloadable,
}: {
  one: Whole;
  file: Whole['files'][number];
  is_downloadable: boolean;
}) {
  const name = file.kind === 'manifest' ? 'Manifest: hashes and sums' : kinds[file.kind];
  if (!is_downloadable || file.sha256 === null) return <span>{name}</span>;
  const day = file.day === null ? '' : ` of ${file.day}`;
  return (
    <Anchor
      href={`/api/exports/${one.id}/files/${file.n}`}
      onClick={(event) => keepLarge(event, () => lookAt(one.id))}
      aria-label={`${name}${day}, download`}
      inherit
    >
      {name}
    </Anchor>
  );
}

/** Throws the refusal of a file that has gone meanwhile, or that is not the viewer's any more. */
async function lookAt(id: string): Promise<void> {
  const { status } = await call('GET /api/exports/:id', { names: { id } });
  if (status !== 'completed')
    throw new Refusal(404, {
      error: { message: 'The files of this export are not kept any more.' },
    });
}
