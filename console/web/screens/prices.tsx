import { Tabs } from '@mantine/core';
import { oneOf, text, useFilters } from '../fields/filters';
import { Page } from '../parts/page';
import { Catalog } from '../prices/catalog';
import { Catalogs } from '../prices/catalogs';
import { Rates } from '../prices/rates';
import { useMe } from '../session/me';

const shape = { tab: oneOf('prices', 'catalogs', 'rates'), q: text };

/** What models cost; operators set prices and exchange rates, and try a change before. */
export function Prices() {
  const { is_operator } = useMe();
  const [{ tab, q }, set] = useFilters(shape);
  const catalog = <Catalog q={q} onSearch={(words) => set({ q: words })} {...{ is_operator }} />;
  return (
    <Page
      title="Prices"
      about="USD for a million tokens, unless another unit is named. What has no price is refused."
    >
      {is_operator ? (
        <Tabs
          value={tab ?? 'prices'}
          onChange={(value) => set({ tab: value as 'prices' })}
          keepMounted={false}
        >
          <Tabs.List>
            <Tabs.Tab value="prices">Models</Tabs.Tab>
            <Tabs.Tab value="catalogs">Catalogs</Tabs.Tab>
            <Tabs.Tab value="rates">Exchange rates</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="prices" pt="md">
            {catalog}
          </Tabs.Panel>
          <Tabs.Panel value="catalogs" pt="md">
            <Catalogs />
          </Tabs.Panel>
          <Tabs.Panel value="rates" pt="md">
            <Rates />
          </Tabs.Panel>
        </Tabs>
      ) : (
        catalog
      )}
    </Page>
  );
}
