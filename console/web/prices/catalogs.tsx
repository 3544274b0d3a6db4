import { Alert, Button, Chip, Group, Stack, Text, Title } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { reading } from '../api/queries';
import { refreshPrices } from '../api/refresh-prices';
import { State } from '../parts/badge';
import { DataTable } from '../parts/data-table';
import { FormModal } from '../parts/form-modal';
import { Empty, Failure, LoadingRows } from '../parts/states';
import { Time } from '../parts/time';
import { Groups, nameOf, type Proposal, takenOf } from './proposal';

const sellers = [
  ...['openai', 'anthropic', 'gemini', 'mistral', 'azure', 'bedrock', 'vertex', 'xai', 'deepseek'],
  ...['groq', 'together', 'fireworks', 'openrouter', 'cohere', 'perplexity'],
];

/** Prices from the catalog that comes with this version: what they would change, and a yes. */
export function Catalogs() {
  const [chosen, setChosen] = useState<string[]>([]);
  const [taken, setTaken] = useState<string[]>([]);
  // What the dialog asks about is what was on the page when it opened.
  const [asked, setAsked] = useState<Proposal>();
  const providers = chosen.join(',');
  const query = useQuery(
    reading('GET /api/admin/price-plan', { query: providers === '' ? {} : { providers } }),
  );
  const choose = (names: string[]) => {
    setChosen(names);
    setTaken([]);
  };
  const proposal = asked ?? query.data;
  const names = proposal ? takenOf(proposal, taken) : [];
  const submit = async (idempotency_key: string) => {
    if (asked === undefined) return;
    const made = await call('POST /api/admin/price-imports', {
      body: bodyOf(asked, names, taken) as never,
      idempotency_key,
    });
    void refreshPrices();
    notifications.show({ message: `${made.prices} prices were taken over.` });
    setTaken([]);
    setAsked(undefined);
  };
  return (
    <Stack gap="lg">
      <Unpriced />
      <section aria-labelledby="proposal">
        <Title order={2} size="h4" id="proposal" mb="xs">
          Propose prices
        </Title>
        <Text mb="sm">
          Of what the gateways serve, or of all models of a seller. Nothing changes before you say
          yes; calls under way keep the price that they were held at.
        </Text>
        <Chip.Group multiple value={chosen} onChange={choose}>
          <Group gap="xs" mb="md">
            {sellers.map((name) => (
              <Chip key={name} value={name}>
                {name}
              </Chip>
            ))}
          </Group>
        </Chip.Group>
        {query.error && !query.data && (
          <Failure error={query.error} retry={() => void query.refetch()} />
        )}
        {query.isPending && <LoadingRows />}
        {query.data && (
          <Groups proposal={query.data} taken={taken} onTake={setTaken}>
            <Button disabled={names.length === 0} onClick={() => setAsked(query.data)}>
              Take {names.length} {names.length === 1 ? 'price' : 'prices'} over
            </Button>
          </Groups>
        )}
      </section>
      <Imports />
      <FormModal
        title={`Take ${names.length} prices over`}
        opened={asked !== undefined}
        onClose={() => setAsked(undefined)}
        submit={submit}
        label="Take over"
      >
        <Text>
          From now on new calls are held and settled at these prices. It can be undone here, as long
          as nobody has changed them.
        </Text>
      </FormModal>
    </Stack>
  );
}

/** The plan with the rows that are taken alone, and what was said yes to by name. */
function bodyOf({ plan, diff }: Proposal, names: readonly string[], taken: readonly string[]) {
  const empty = new Set(diff.rows.filter(({ is_empty }) => is_empty).map(nameOf));
  const named = taken.filter((name) => names.includes(name));
  return {
    plan: { ...plan, rows: plan.rows.filter((row) => names.includes(nameOf(row))), missing: [] },
    take: named.filter((name) => !empty.has(name)),
    free: named.filter((name) => empty.has(name)),
  };
}

/** What is served and would be refused, first of all. */
function Unpriced() {
  const query = useQuery(reading('GET /api/admin/price-check'));
  const { unpriced = [], differs = [], old = [], told_costs = [] } = query.data ?? {};
  const below = told_costs.filter(({ standing }) => standing === 'below');
  const above = told_costs.filter(
    ({ standing, is_decided }) => standing === 'above' && !is_decided,
  );
  if (unpriced.length + differs.length + below.length + above.length === 0)
    return old.length > 0 ? <Text c="dimmed">{old.join('. ')}.</Text> : null;
  return (
    <Alert color="orange" title="To be mended" role="status">
      {unpriced.length > 0 && (
        <Text>Served and refused for want of a price: {unpriced.join(', ')}.</Text>
      )}
      {differs.length > 0 && (
        <Text>
          Other in their catalog or configuration by now:{' '}
          {differs.map(({ name }) => name).join(', ')}.
        </Text>
      )}
      {below.length > 0 && (
        <Text>
          Charged below what its provider takes: {below.map(({ name }) => name).join(', ')}.
        </Text>
      )}
      {above.length > 0 && (
        <Text>
          Charged above what its provider takes: {above.map(({ name }) => name).join(', ')}.
        </Text>
      )}
    </Alert>
  );
}

type Import = Answer<'GET /api/admin/price-imports'>['imports'][number];

function Imports() {
  const query = useQuery({
    ...reading('GET /api/admin/price-imports'),
    select: ({ imports }) => ({ imports, has_more: false }),
  });
  const [undoing, setUndoing] = useState<Import>();
  const submit = async (idempotency_key: string) => {
    const names = { id: undoing?.id ?? '' };
    const undone = await call('POST /api/admin/price-imports/:id/undo', {
      ...{ names, body: {} as never, idempotency_key },
    });
    void refreshPrices();
    const kept =
      undone.kept.length > 0 ? ` Changed since, and kept: ${undone.kept.join(', ')}.` : '';
    notifications.show({
      message: `${undone.restored.length} prices are back, ${undone.removed.length} are gone again.${kept}`,
    });
    setUndoing(undefined);
  };
  return (
    <section aria-labelledby="imports">
      <Title order={2} size="h4" id="imports" mb="xs">
        Taken over so far
      </Title>
      <DataTable
        label="Imports of prices"
        query={query}
        itemsOf={({ imports }) => imports}
        keyOf={({ id }) => id}
        columns={[
          { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
          {
            title: 'From',
            cell: sourcesOf,
          },
          { title: 'By', cell: ({ actor }) => <span className="wrap">{actor}</span> },
          { title: 'Prices', is_number: true, cell: ({ prices }) => prices },
          {
            title: 'State',
            cell: ({ undone_at }) =>
              undone_at === null ? (
                <State word="taken over" kind="good" />
              ) : (
                <State word="undone" kind="neutral" />
              ),
          },
        ]}
        empty={<Empty title="None yet">Every price so far was set by hand.</Empty>}
        actions={(one) =>
          one.undone_at === null && (
            <Button size="compact-sm" variant="default" onClick={() => setUndoing(one)}>
              Undo
            </Button>
          )
        }
      />
      <FormModal
        title="Undo this import"
        opened={undoing !== undefined}
        onClose={() => setUndoing(undefined)}
        submit={submit}
        label="Undo"
        is_dangerous
      >
        {undoing && (
          <Text>
            The {undoing.prices} prices that {undoing.actor} took over from {sourcesOf(undoing)},{' '}
            <Time at={undoing.created_at} />, go back to the version before; those that had none are
            refused again. What somebody has changed since stays.
          </Text>
        )}
      </FormModal>
    </section>
  );
}

function sourcesOf({ sources }: Pick<Import, 'sources'>): string {
  return sources.map(({ catalog, version }) => `${catalog} ${version}`).join(', ');
}
