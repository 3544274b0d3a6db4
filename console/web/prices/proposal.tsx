import { Button, Checkbox, Stack, Table, Text, Title } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import type { Answer } from '../api/client';
import { type Amount, amounts } from './words';

export type Proposal = Answer<'GET /api/admin/price-plan'>;
type Row = Proposal['diff']['rows'][number];

/** `openai/gpt-5.4` */
export function nameOf({ provider, model }: { provider: string; model: string }): string {
  return `${provider}/${model}`;
}

/** The rows that a yes takes: all new and changed ones, and those that were ticked. */
export function takenOf({ diff }: Proposal, ticked: readonly string[]): string[] {
  return diff.rows
    .filter((row) => is_plain[row.group] === true || ticked.includes(nameOf(row)))
    .map(nameOf);
}

const is_plain: Partial<Record<Row['group'], true>> = { new: true, changed: true };
const SHOWN_MAX = 100;

const groups = [
  { group: 'new', title: 'New', about: 'They have no price yet.' },
  { group: 'changed', title: 'Changed', about: 'The catalog lists them otherwise by now.' },
  {
    group: 'asks',
    title: 'Need your confirmation',
    about: 'Something makes their figures doubtful: tick those that are right.',
  },
  {
    group: 'kept',
    title: 'Set by hand',
    about: 'They stay as they are. Tick those that the catalog is to say from now on.',
  },
] as const;

/** What a plan would do, group by group, above the button that does it. */
export function Groups({
  proposal,
  taken,
  onTake,
  children,
}: {
  proposal: Proposal;
  taken: string[];
  onTake: (names: string[]) => void;
  children: ReactNode;
}) {
  const { rows, missing, gone } = proposal.diff;
  const same = rows.filter(({ group }) => group === 'same').length;
  return (
    <Stack gap="md">
      <Text>
        {rows.length === 0 && missing.length === 0
          ? 'The gateways serve no model by a configuration of the control plane. Choose sellers above.'
          : `${rows.length} models are listed, ${same} of them at the price that they have.`}
      </Text>
      {children}
      {groups.map(({ group, ...words }) => (
        <Group
          key={group}
          {...words}
          rows={rows.filter((row) => row.group === group)}
          {...(is_plain[group] ? {} : { taken, onTake })}
        />
      ))}
      <Names
        title="Not found in any catalog by this exact name"
        names={missing.map(missingWords)}
      />
      <Names title="Imported before, no longer listed; kept as they are" names={gone} />
    </Stack>
  );
}

function missingWords({ near, ...row }: Proposal['diff']['missing'][number]): string {
  return near.length === 0 ? nameOf(row) : `${nameOf(row)} (there is ${near.join(', ')})`;
}

function Group({
  title,
  about,
  rows,
  taken,
  onTake,
}: {
  title: string;
  about: string;
  rows: readonly Row[];
  /** Absent: its rows are taken all together. */
  taken?: string[];
  onTake?: (names: string[]) => void;
}) {
  const [is_whole, setWhole] = useState(false);
  if (rows.length === 0) return null;
  const tick = (name: string, is_on: boolean) =>
    onTake?.(is_on ? [...(taken ?? []), name] : (taken ?? []).filter((one) => one !== name));
  return (
    <section aria-label={title}>
      <Title order={3} size="h5">
        {title}: {rows.length}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {about}
      </Text>
      <Table.ScrollContainer minWidth={0} type="native" className="table">
        <Table aria-label={title} verticalSpacing={4}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>Model</Table.Th>
              <Table.Th>What changes</Table.Th>
              <Table.Th>Says</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.slice(0, is_whole ? rows.length : SHOWN_MAX).map((row) => (
              <Table.Tr key={nameOf(row)}>
                <Table.Td data-title="Model">
                  {onTake ? (
                    <Checkbox
                      label={nameOf(row)}
                      disabled={row.is_empty && !row.may_be_free}
                      checked={taken?.includes(nameOf(row)) ?? false}
                      onChange={(event) => tick(nameOf(row), event.currentTarget.checked)}
                    />
                  ) : (
                    <span className="wrap">{nameOf(row)}</span>
                  )}
                </Table.Td>
                <Table.Td data-title="What changes">
                  <Changes row={row} />
                </Table.Td>
                <Table.Td data-title="Says">
                  <Text size="sm">{[row.catalog, ...row.confirmed_by].join(', ')}</Text>
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {rows.length > SHOWN_MAX && !is_whole && (
        <Button variant="default" size="compact-sm" mt="xs" onClick={() => setWhole(true)}>
          Show all {rows.length}
        </Button>
      )}
    </section>
  );
}

function Changes({ row }: { row: Row }) {
  const { changes, doubts, is_empty, may_be_free, coming, withdrawn, lost, has_news } = row;
  return (
    <Stack gap={2}>
      <Amounts changes={changes} />
      {has_news && changes.length === 0 && <Text size="sm">What is known of the model.</Text>}
      {is_empty && (
        <Text size="sm">
          {may_be_free
            ? 'No amount is listed: ticked, it costs nothing.'
            : 'No amount has a place in a price: set it by hand.'}
        </Text>
      )}
      {doubts.map((doubt) => (
        <Text size="sm" fs="italic" key={doubt}>
          {doubt}
        </Text>
      ))}
      {coming.map(({ from, changes: later }) => (
        <Stack gap={2} key={from}>
          <Text size="sm">From {from}:</Text>
          <Amounts changes={later} />
        </Stack>
      ))}
      {withdrawn.length > 0 && (
        <Text size="sm">Planned for {withdrawn.join(', ')} before, and listed no more.</Text>
      )}
      {lost.length > 0 && (
        <Text size="sm" c="dimmed">
          Without a place in a price: {lost.join(', ')}
        </Text>
      )}
    </Stack>
  );
}

function Amounts({ changes }: { changes: Row['changes'] }) {
  return changes.map(({ amount, was, now, percent }) => (
    <Text size="sm" key={amount}>
      {amountWords(amount)}: {was === null ? '' : `${was} → `}
      <b>{now ?? 'none'}</b>
      {percent === null ? '' : ` (${percent} %)`}
    </Text>
  ));
}

const facts: Readonly<Record<string, string>> = {
  max_output_tokens: 'Longest answer, in tokens',
  reasoning: 'Reasons unseen',
};

/** `above 200000: input_per_1m` in words. */
function amountWords(amount: string): string {
  const [name = '', ...before] = amount.split(': ').reverse();
  const words: string = amounts[name as Amount] ?? facts[name] ?? name;
  return [words, ...before.reverse()].join(', ');
}

function Names({ title, names }: { title: string; names: readonly string[] }) {
  if (names.length === 0) return null;
  return (
    <section aria-label={title}>
      <Title order={3} size="h5">
        {title}: {names.length}
      </Title>
      <Text size="sm">{names.slice(0, SHOWN_MAX).join('; ')}</Text>
    </section>
  );
}
