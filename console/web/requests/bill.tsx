import { Alert, Table, Text } from '@mantine/core';
import { sumText, trimmed } from '../base/decimals';
import { locale } from '../base/locale';
import { exactText, Money } from '../parts/money';
import { lineWords, type Story, spelled } from './words';

const count = new Intl.NumberFormat(locale, { maximumFractionDigits: 6 });

/** The price lines of a call, to their last digit, and that they add up to what it cost. */
export function Bill({ story }: { story: Story }) {
  const { price_lines: lines, settlement } = story;
  if (settlement === null)
    return <Text c="dimmed">Nothing yet: a call is priced when it is settled.</Text>;
  if (lines.length === 0)
    return (
      <>
        <Text c="dimmed">Nothing.</Text>
        <Factor story={story} />
      </>
    );
  const { currency, actual_cost } = settlement;
  const sum = sumText(lines.map(({ amount }) => amount));
  const adds_up = `${sum} ${currency}` === exactText(actual_cost, currency);
  return (
    <>
      <Table.ScrollContainer minWidth={0} type="native" className="table">
        <Table aria-label="Price lines" verticalSpacing="xs">
          <Table.Thead>
            <Table.Tr>
              <Table.Th>What</Table.Th>
              <Table.Th ta="right">How much</Table.Th>
              <Table.Th ta="right">Each, in {currency}</Table.Th>
              <Table.Th ta="right">Amount in {currency}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {lines.map(({ what, quantity, unit_price, amount }, place) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines are never moved, and a kind may stand twice.
              <Table.Tr key={place}>
                <Table.Td data-title="What">{lineWords(what)}</Table.Td>
                <Table.Td data-title="How much" ta="right" className="figures">
                  {count.format(Number(quantity))}
                </Table.Td>
                <Table.Td data-title="Each" ta="right" className="figures">
                  {trimmed(unit_price)}
                </Table.Td>
                <Table.Td data-title="Amount" ta="right" className="figures">
                  {trimmed(amount)}
                </Table.Td>
              </Table.Tr>
            ))}
            <Table.Tr fw={700}>
              <Table.Td data-title="What">All together</Table.Td>
              <Table.Td visibleFrom="sm" />
              <Table.Td visibleFrom="sm" ta="right">
                <Money amount={actual_cost} currency={currency} />
              </Table.Td>
              <Table.Td data-title="Amount" ta="right" className="figures">
                {sum}
              </Table.Td>
            </Table.Tr>
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Factor story={story} />
      {!adds_up && (
        <Alert color="red">
          The lines add up to {sum} {currency}, but the call was settled at{' '}
          {exactText(actual_cost, currency)}. Tell your operator.
        </Alert>
      )}
    </>
  );
}

/** What the prices of the list were multiplied with, and whose key served. */
function Factor({ story: { own_keys, provider_key_id, price_factor } }: { story: Story }) {
  const key = own_keys?.find((one) => one.provider_key_id === provider_key_id);
  if (key === undefined)
    return price_factor === null ? null : (
      <Text c="dimmed" size="sm">
        Your organization paid × {price_factor} of the price list.
      </Text>
    );
  return (
    <Text c="dimmed" size="sm">
      Served by your organization's own key of {key.provider}: prices are × {key.price_factor}, but
      for the fee per request.
    </Text>
  );
}

/** What was used, by class; classes of which nothing was used are left out. */
export function Usage({ story }: { story: Story }) {
  const { usage, usage_source } = story;
  const used = Object.entries(usage ?? {}).filter(([, value]) => value !== 0 && value !== '0');
  if (used.length === 0) return <Text c="dimmed">Nothing was used.</Text>;
  return (
    <>
      <Table aria-label="Usage" maw={420}>
        <Table.Tbody>
          {used.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th scope="row" fw={400}>
                {spelled(name)}
              </Table.Th>
              <Table.Td ta="right" className="figures">
                {typeof value === 'number' ? count.format(value) : value}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Text size="sm" c="dimmed" mt={4}>
        {usage_source === 'upstream'
          ? 'As the provider counted it.'
          : 'As the gateway counted it, since the provider told no figures.'}
      </Text>
    </>
  );
}
