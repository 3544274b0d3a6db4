import { BarChart } from '@mantine/charts';
import '@mantine/charts/styles.css';
import { amountOf } from '../base/decimals';
import { locale } from '../base/locale';
import { moneyText } from '../parts/money';
import { colours, OTHERS } from './colours';
import type { Bar, Measure } from './series';

/** Stacked bars of the first groups and all others. A click on a part narrows to its group. */
export function Bars({
  bars,
  names,
  has_others,
  measure,
  currency,
  onPick,
}: {
  bars: readonly Bar[];
  /** Of the parts, in their order. */
  names: readonly string[];
  has_others: boolean;
  measure: Measure;
  currency: string;
  onPick: (place: number) => void;
}) {
  const series = [
    ...names.map((label, place) => ({ name: `p${place}`, label, color: colours[place] ?? OTHERS })),
    ...(has_others ? [{ name: 'others', label: 'others', color: OTHERS }] : []),
  ];
  // The pixels of a bar need no more figures than a number has; what is read is the table's.
  const size = (value: bigint) => (measure === 'cost' ? amountOf(value) : Number(value));
  const data = bars.map(({ label, parts, others }) => ({
    label,
    ...Object.fromEntries(parts.map((part, place) => [`p${place}`, size(part)])),
    others: size(others),
  }));
  return (
    <BarChart
      h={300}
      data={data}
      dataKey="label"
      type="stacked"
      series={series}
      valueFormatter={(value) =>
        measure === 'cost'
          ? moneyText(value, currency)
          : new Intl.NumberFormat(locale).format(value)
      }
      yAxisProps={{ width: 80 }}
      xAxisProps={{ minTickGap: 16 }}
      tooltipAnimationDuration={0}
      maxBarWidth={48}
      barProps={({ name }) => ({
        isAnimationActive: false,
        ...(name === 'others'
          ? {}
          : { cursor: 'pointer', onClick: () => onPick(Number(name.slice(1))) }),
      })}
    />
  );
}
