import { Table, Text } from '@mantine/core';
import { Dialog } from '../parts/dialog';
import type { Version } from './words';

/** What a version changes of the one before: each path, before and after. */
export function ChangesDialog({
  version,
  onClose,
}: {
  version: Version | undefined;
  onClose: () => void;
}) {
  return (
    <Dialog
      opened={version !== undefined}
      onClose={onClose}
      title={version ? `What version ${version.version} changed` : ''}
      size="xl"
    >
      {version && <Changes changes={version.changes} count={version.change_count} />}
    </Dialog>
  );
}

/** A table of changes; the server lists no more than it counts. */
export function Changes({ changes, count }: { changes: Version['changes']; count: number | null }) {
  if (changes === null) return <Text>There is nothing before it to compare with.</Text>;
  if (changes.length === 0) return <Text>It changes nothing.</Text>;
  return (
    <>
      <Table.ScrollContainer minWidth={0} type="native" className="table">
        <Table aria-label="Changes">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Where</Table.Th>
              <Table.Th>Before</Table.Th>
              <Table.Th>After</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {changes.map(({ path, before, after }) => (
              <Table.Tr key={path}>
                <Table.Td data-title="Where" className="wrap">
                  <code>{path}</code>
                </Table.Td>
                <Table.Td data-title="Before" className="wrap">
                  {valueWords(before)}
                </Table.Td>
                <Table.Td data-title="After" className="wrap">
                  {valueWords(after)}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {count !== null && count > changes.length && (
        <Text c="dimmed">{`${changes.length} of ${count} changes are shown.`}</Text>
      )}
    </>
  );
}

function valueWords(value: unknown): string {
  if (value === undefined || value === null) return '–';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
