import { Button, Group, Table, Text } from '@mantine/core';
import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Stale } from './stale';
import { Failure, LoadingRows } from './states';

export interface Column<Item> {
  /** Stands above the column, and before the value on a narrow screen. */
  title: string;
  cell: (item: Item) => ReactNode;
  is_number?: boolean;
}

/** What a list of the API answers when it is read by cursors. */
export interface Parts {
  next?: string | null;
  has_more: boolean;
}

/**
 * A list of the server, one page at a time. The server sorts, filters and pages; nothing is summed
 * or sorted here. `cursor` and `onCursor` belong to the address of the page, so that Back works.
 */
export function DataTable<Item, Data extends Parts>({
  label,
  columns,
  query,
  itemsOf,
  keyOf,
  empty,
  cursor,
  onCursor,
  onOpen,
  actions,
}: {
  label: string;
  columns: readonly Column<Item>[];
  query: UseQueryResult<Data>;
  itemsOf: (data: Data) => readonly Item[];
  keyOf: (item: Item) => string;
  /** Shown in place of the table while there is nothing. */
  empty: ReactNode;
  cursor?: string | undefined;
  onCursor?: (cursor: string | undefined) => void;
  onOpen?: ((item: Item) => void) | undefined;
  actions?: ((item: Item) => ReactNode) | undefined;
}) {
  const { data, error, refetch } = query;
  if (error && data === undefined) return <Failure error={error} retry={() => void refetch()} />;
  if (data === undefined) return <LoadingRows />;
  const items = itemsOf(data);
  const more = data.has_more ? (data.next ?? undefined) : undefined;
  if (items.length === 0 && cursor === undefined && (more === undefined || onCursor === undefined))
    return <Stale is_stale={query.isPlaceholderData}>{empty}</Stale>;
  return (
    <Stale is_stale={query.isPlaceholderData}>
      <Table.ScrollContainer minWidth={0} type="native" className="table">
        <Table
          highlightOnHover
          verticalSpacing="xs"
          aria-label={label}
          aria-busy={query.isFetching}
        >
          <Table.Thead>
            <Table.Tr>
              {columns.map(({ title, is_number }) => (
                <Table.Th key={title} ta={is_number ? 'right' : 'left'}>
                  {title}
                </Table.Th>
              ))}
              {actions && (
                <Table.Th className="actions">
                  <span className="unseen">Actions</span>
                </Table.Th>
              )}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {items.map((item) => (
              <Row key={keyOf(item)} {...{ item, columns, onOpen, actions }} />
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {onCursor && (
        <Group justify="space-between" mt="sm">
          <Text size="sm" c="dimmed" aria-live="polite">
            {items.length === 0 && more !== undefined
              ? 'None among those looked at so far; there are older ones.'
              : `${items.length} shown`}
          </Text>
          <Group gap="xs">
            <Button
              variant="default"
              size="xs"
              disabled={cursor === undefined}
              onClick={() => onCursor(undefined)}
            >
              First page
            </Button>
            <Button
              variant="default"
              size="xs"
              disabled={more === undefined}
              onClick={() => onCursor(more)}
            >
              {items.length === 0 ? 'Look further' : 'Next page'}
            </Button>
          </Group>
        </Group>
      )}
    </Stale>
  );
}

function Row<Item>({
  item,
  columns,
  onOpen,
  actions,
}: {
  item: Item;
  columns: readonly Column<Item>[];
  onOpen: ((item: Item) => void) | undefined;
  actions: ((item: Item) => ReactNode) | undefined;
}) {
  const open = onOpen && {
    className: 'opens',
    onClick: (event: React.MouseEvent) => {
      // What can be pressed inside a row keeps its own meaning.
      if (!(event.target as Element).closest('a, button, input, label')) onOpen(item);
    },
  };
  return (
    <Table.Tr {...open}>
      {columns.map(({ title, cell, is_number }) => (
        <Table.Td key={title} data-title={title} ta={is_number ? 'right' : 'left'}>
          {cell(item)}
        </Table.Td>
      ))}
      {actions && (
        <Table.Td className="actions">
          <Group gap="xs" justify="flex-end">
            {actions(item)}
          </Group>
        </Table.Td>
      )}
    </Table.Tr>
  );
}
