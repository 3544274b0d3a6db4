import { Table, Text } from '@mantine/core';
import { amountOf, nanosOf } from '../base/decimals';
import { Money } from '../parts/money';

/** One side of a move of money. */
export interface Side {
  /** Two sides may have one name. */
  id: string;
  name: string;
  /** What is there now. */
  now: number;
  /** What comes; negative: what goes. */
  by: number;
}

/** What both sides of a move of money have after it, before anybody presses. */
export function AfterValues({ sides, currency }: { sides: readonly Side[]; currency: string }) {
  return (
    <Table aria-label="Balances after this">
      <Table.Thead>
        <Table.Tr>
          <Table.Th>Wallet</Table.Th>
          <Table.Th ta="right">Now</Table.Th>
          <Table.Th ta="right">After</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {sides
          .map((side) => ({ ...side, after: amountOf(nanosOf(side.now) + nanosOf(side.by)) }))
          .map(({ id, name, now, after }) => (
            <Table.Tr key={id}>
              <Table.Td className="wrap">{name}</Table.Td>
              <Table.Td ta="right">
                <Money amount={now} currency={currency} />
              </Table.Td>
              <Table.Td ta="right">
                <Money amount={after} currency={currency} fw={600} />
                {after < 0 && <Text size="sm">more than it has</Text>}
              </Table.Td>
            </Table.Tr>
          ))}
      </Table.Tbody>
    </Table>
  );
}
