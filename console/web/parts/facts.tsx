import { Table } from '@mantine/core';
import type { ReactNode } from 'react';

/** Facts of one thing by their names; those that are undefined are left out. */
export function FactTable({
  label,
  facts,
}: {
  label: string;
  facts: readonly (readonly [name: string, value: ReactNode])[];
}) {
  return (
    <Table aria-label={label} variant="vertical" layout="auto" className="facts">
      <Table.Tbody>
        {facts
          .filter(([, value]) => value !== undefined && value !== null)
          .map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th scope="row">{name}</Table.Th>
              <Table.Td className="wrap">{value}</Table.Td>
            </Table.Tr>
          ))}
      </Table.Tbody>
    </Table>
  );
}
