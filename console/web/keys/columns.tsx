import { Progress, Text } from '@mantine/core';
import type { Answer } from '../api/client';
import type { AnyColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import { windowWords } from '../fields/window-select';
import { State } from '../parts/badge';
import type { Column } from '../parts/data-table';
import { Money, moneyText } from '../parts/money';
import { Name, PersonName } from '../parts/names';
import { Time } from '../parts/time';

export type Key = Answer<'GET /api/keys'>['tokens'][number];

/** How keys are shown in a table; `has_owner`: also whose they are. */
export function keyColumns(currency: string, has_owner: boolean): Column<Key>[] {
  const owner: Column<Key> = { title: 'Of', cell: (key) => <Owner token={key} /> };
  return [
    {
      title: 'Name',
      cell: ({ name, prefix }) => (
        <span className="wrap">
          {name} <br />
          <code>{prefix}…</code>
        </span>
      ),
    },
    ...(has_owner ? [owner] : []),
    { title: 'Budget', cell: (key) => <Budget token={key} currency={currency} /> },
    {
      title: 'Models',
      cell: ({ allowed_models }) => (
        <span className="wrap">
          {allowed_models === null ? 'every model' : allowed_models.join(', ') || 'no model'}
        </span>
      ),
    },
    { title: 'Ends', cell: ({ expires_at }) => <Time at={expires_at} /> },
    { title: 'Last used', cell: ({ last_used_at }) => <Time at={last_used_at} /> },
    {
      title: 'State',
      cell: ({ status }) => <State word={status} kind={status === 'active' ? 'good' : 'neutral'} />,
    },
  ];
}

/** The person or team, else the organization; and the agent, if the key is of one. */
function Owner({ token: { user_id, team_id, agent_id } }: { token: Key }) {
  const whose = user_id ? (
    <PersonName id={user_id} />
  ) : team_id ? (
    <Name id={team_id} />
  ) : (
    <span>the organization</span>
  );
  return agent_id ? (
    <span className="wrap">
      {whose}, agent <Name id={agent_id} />
    </span>
  ) : (
    whose
  );
}

function Budget({ token, currency }: { token: Key; currency: string }) {
  if (token.token_type === 'access') return <span>–</span>;
  const used = token.budget_used ?? token.spent;
  if (token.max_budget === null)
    return (
      <span>
        <Money amount={token.spent} currency={currency} /> spent
      </span>
    );
  const share = token.max_budget === 0 ? 100 : Math.min(100, (used / token.max_budget) * 100);
  const words = `${moneyText(used, currency)} of ${moneyText(token.max_budget, currency)}`;
  return (
    <div>
      <Text size="sm" className="figures">
        <Money amount={used} currency={currency} /> of{' '}
        <Money amount={token.max_budget} currency={currency} />
        {token.budget_window ? ` ${windowWords(token.budget_window)}` : ''}
      </Text>
      <Progress value={share} size="sm" aria-label={words} color={share >= 90 ? 'red' : 'indigo'} />
    </div>
  );
}

const amountText = (amount: number | null) => (amount === null ? null : decimalText(amount));

/** What a file says of keys; never their values, which nobody knows. */
export function keyCsv(currency: string): AnyColumn<Key>[] {
  return [
    { title: 'id', text: ({ id }) => id },
    { title: 'name', text: ({ name }) => name },
    { title: 'prefix', text: ({ prefix }) => prefix },
    { title: 'type', text: ({ token_type }) => token_type },
    { title: 'status', text: ({ status }) => status },
    { title: 'user_id', text: ({ user_id }) => user_id },
    { title: 'user_name', name_of: ({ user_id }) => user_id },
    { title: 'team_id', text: ({ team_id }) => team_id },
    { title: 'team_name', name_of: ({ team_id }) => team_id },
    { title: 'agent_id', text: ({ agent_id }) => agent_id },
    { title: 'agent_name', name_of: ({ agent_id }) => agent_id },
    { title: 'scopes', text: ({ scopes }) => scopes.join(' ') },
    { title: 'models', text: ({ allowed_models }) => allowed_models?.join(' ') ?? null },
    { title: 'max_budget', text: ({ max_budget }) => amountText(max_budget) },
    { title: 'budget_window', text: ({ budget_window }) => budget_window },
    { title: 'budget_used', text: ({ budget_used }) => amountText(budget_used) },
    { title: 'spent', text: ({ spent }) => decimalText(spent) },
    { title: 'currency', text: () => currency },
    { title: 'created_at', text: ({ created_at }) => created_at },
    { title: 'expires_at', text: ({ expires_at }) => expires_at },
    { title: 'last_used_at', text: ({ last_used_at }) => last_used_at },
  ];
}
