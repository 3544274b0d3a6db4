import { Button, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import type { CsvColumn } from '../base/csv';
import { FilterInput } from '../fields/filter-input';
import { State } from '../parts/badge';
import { CsvButton } from '../parts/csv';
import { type Column, DataTable } from '../parts/data-table';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { PriceDialog } from './change';
import { RemoveDialog } from './remove';
import { amountText, furtherWords, names, type Price } from './words';

const SHOWN_MAX = 200;

/** The price list, searched by name; an operator changes it. */
export function Catalog({
  q,
  onSearch,
  is_operator,
}: {
  q: string | undefined;
  onSearch: (q: string) => void;
  is_operator: boolean;
}) {
  // The list comes whole, so it is searched here.
  const select = ({ models }: { models: Price[] }) => {
    const words = (q ?? '').toLowerCase().split(/\s+/);
    const found = models.filter(({ provider, model }) =>
      words.every((word) => `${provider} ${model}`.toLowerCase().includes(word)),
    );
    return { models: found.slice(0, SHOWN_MAX), all: found, found: found.length, has_more: false };
  };
  const all = useQuery({ ...reading('GET /api/prices'), select, enabled: !is_operator });
  const planned = useQuery({ ...reading('GET /api/admin/prices'), select, enabled: is_operator });
  const query = is_operator ? planned : all;
  const [changing, setChanging] = useState<Price | 'new'>();
  const [removing, setRemoving] = useState<Price>();
  const found = query.data?.found ?? 0;
  return (
    <>
      <Group justify="space-between" align="flex-end" mb="sm">
        <FilterInput
          label="Name"
          placeholder="provider or model"
          value={q}
          onFilter={onSearch}
          w={240}
        />
        <Group gap="xs">
          <CsvButton
            file="prices"
            read={async () => ({ items: query.data?.all ?? [], next: null })}
            columns={csv}
          />
          {is_operator && <Button onClick={() => setChanging('new')}>New price</Button>}
        </Group>
      </Group>
      <DataTable
        label="Prices"
        query={query}
        itemsOf={({ models }) => models}
        keyOf={({ id, effective_from }) => `${id} ${effective_from}`}
        columns={is_operator ? [...columns, source, version] : columns}
        empty={
          <Empty title="No price of this name">
            Calls of a model without a price are refused.
            {is_operator ? '' : ' An operator of the platform sets prices.'}
          </Empty>
        }
        {...(is_operator
          ? {
              actions: (price: Price) => (
                <>
                  {!isPlanned(price) && (
                    <Button size="compact-sm" variant="default" onClick={() => setChanging(price)}>
                      Change
                    </Button>
                  )}
                  <Button size="compact-sm" variant="default" onClick={() => setRemoving(price)}>
                    {isPlanned(price) ? 'Take back' : 'Delete'}
                  </Button>
                </>
              ),
            }
          : {})}
      />
      {found > SHOWN_MAX && (
        <Text size="sm" c="dimmed" mt="sm">
          The first {SHOWN_MAX} of {found}: search for more.
        </Text>
      )}
      <PriceDialog price={changing} onClose={() => setChanging(undefined)} />
      <RemoveDialog
        price={removing}
        is_planned={removing !== undefined && isPlanned(removing)}
        onClose={() => setRemoving(undefined)}
      />
    </>
  );
}

function isPlanned({ effective_from }: Price): boolean {
  return Date.parse(effective_from) > serverNow();
}

const dash = (amount: number | null) => (amount === null ? '–' : amountText(amount));

const columns: Column<Price>[] = [
  {
    title: 'Model',
    cell: ({ provider, model, free }) => (
      <span className="wrap">
        {provider} <b>{model}</b>
        {free && ', which is free'}
      </span>
    ),
  },
  { title: 'Input', is_number: true, cell: ({ input_per_1m }) => dash(input_per_1m) },
  { title: 'Cached', is_number: true, cell: (price) => dash(price.cached_input_per_1m) },
  { title: 'Output', is_number: true, cell: ({ output_per_1m }) => dash(output_per_1m) },
  {
    title: 'Further',
    cell: (price) => {
      const further = furtherWords(price);
      return further.length === 0 ? '–' : <Text size="sm">{further.join('; ')}</Text>;
    },
  },
];

const csv: CsvColumn<Price>[] = [
  { title: 'provider', text: ({ provider }) => provider },
  { title: 'model', text: ({ model }) => model },
  { title: 'effective_from', text: ({ effective_from }) => effective_from },
  ...names.map((name) => ({
    title: name,
    text: (price: Price) => (price[name] === null ? null : amountText(price[name])),
  })),
];

const source: Column<Price> = {
  title: 'From',
  cell: ({ source: from, catalog }) => (
    <Text size="sm">{from === 'hand' ? 'by hand' : (catalog ?? 'a catalog')}</Text>
  ),
};

const version: Column<Price> = {
  title: 'Version',
  cell: (price) => (
    <Group gap={4}>
      {isPlanned(price) ? (
        <State word="planned" kind="waiting" />
      ) : (
        <State word="in force" kind="good" />
      )}
      <Text size="sm" component="span">
        from <Time at={price.effective_from} />
      </Text>
    </Group>
  ),
};
