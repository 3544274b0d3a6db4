import { Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { oneOf, text, useFilters } from '../fields/filters';
import { Page } from '../parts/page';
import { Catalog } from '../prices/catalog';
import { Catalogs } from '../prices/catalogs';
import { Rates } from '../prices/rates';
import { may, useMe } from '../session/me';

const shape = { tab: oneOf('prices', 'catalogs', 'rates'), q: text };

/** What the viewer's organization pays of the list, for whoever sees its money. */
function OwnFactor() {
  const me = useMe();
  const { data } = useQuery({
    ...reading('GET /api/wallet-settings/:id', { names: { id: me.acting_org ?? '' } }),
    enabled: me.acting_org !== null && may(me, 'org:billing'),
  });
  if (data === undefined || data.price_factor === 1) return null;
  return <Text mb="sm">Your organization pays × {data.price_factor} of each price.</Text>;
}

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
        <>
          <OwnFactor />
          {catalog}
        </>
      )}
    </Page>
  );
}
