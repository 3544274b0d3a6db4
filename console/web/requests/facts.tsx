import { Table, Text } from '@mantine/core';
import { CopyId } from '../parts/copy-id';
import { FactTable } from '../parts/facts';
import { AppLink } from '../parts/link';
import { exactText, Money } from '../parts/money';
import { Name, PersonName } from '../parts/names';
import { Time } from '../parts/time';
import { statusWords } from '../tickets/words';
import { entryWords, settlementWords } from '../wallets/entry-words';
import { familyWords } from './family-words';
import type { Story } from './words';

/** Who called what, for whom and for what. */
export function Facts({ story }: { story: Story }) {
  const { provider, model, settled_model, settled_provider, hold } = story;
  const is_moved =
    settled_model !== null && (settled_model !== model || settled_provider !== provider);
  return (
    <FactTable
      label="Facts"
      facts={[
        ['Asked for', model === null ? undefined : `${provider} ${model}`],
        ['Served by', is_moved ? `${settled_provider} ${settled_model}` : undefined],
        [
          'Fallbacks',
          story.fallbacks?.map((one) => `${one.provider} ${one.model}`).join(', ') || undefined,
        ],
        ['Kind of call', story.family && familyWords(story.family)],
        ['Person', story.user_id && <PersonName id={story.user_id} />],
        ['Team', story.team_id && <Name id={story.team_id} />],
        ['Agent', story.agent_id && <Name id={story.agent_id} />],
        ['Key', story.key_id && <Name id={story.key_id} />],
        ['Session', story.session_id && <CopyId value={story.session_id} />],
        ['Tags', story.tags?.join(', ') || undefined],
        ['Held', hold && <Hold hold={hold} />],
        ['Ticket', story.cost_ticket && <TicketLine ticket={story.cost_ticket} />],
      ]}
    />
  );
}

function Hold({ hold }: { hold: NonNullable<Story['hold']> }) {
  const { reserved_amount, currency, wallet_id, wallet_owner_type, max_completion_tokens } = hold;
  const owner = { user: "the person's", team: "the team's", organization: "the organization's" };
  return (
    <>
      <Money amount={reserved_amount} currency={currency} /> from{' '}
      <AppLink to={`/wallets/${wallet_id}`}>{owner[wallet_owner_type]} wallet</AppLink>
      {max_completion_tokens !== null && `, for ${max_completion_tokens} output tokens at most`}
    </>
  );
}

function TicketLine({ ticket }: { ticket: NonNullable<Story['cost_ticket']> }) {
  return (
    <>
      <AppLink to={`/tickets/${ticket.id}`}>{statusWords(ticket.status)}</AppLink>
      {ticket.decided_by && (
        <>
          {' by '}
          <PersonName id={ticket.decided_by} />
        </>
      )}
    </>
  );
}

/** What an entry of a call did: the ledger's words, but for its hold and its usual end. */
function whatOf(entry: Story['transactions'][number]): string {
  if (entry.phase === 'hold') return 'Held';
  if (entry.phase === 'close') return settlementWords(entry) ?? 'What was left went back';
  return entryWords(entry);
}

/** The entries that the call made in the ledger. */
export function Entries({ story }: { story: Story }) {
  const currency = story.settlement?.currency ?? story.hold?.currency ?? 'USD';
  if (story.transactions.length === 0) return <Text c="dimmed">No money moved.</Text>;
  return (
    <Table.ScrollContainer minWidth={0} type="native" className="table">
      <Table aria-label="Ledger entries" verticalSpacing="xs">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>When</Table.Th>
            <Table.Th>What</Table.Th>
            <Table.Th ta="right">Amount</Table.Th>
            <Table.Th ta="right">Balance after</Table.Th>
            <Table.Th>Entry</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {story.transactions.map((entry) => (
            <Table.Tr key={entry.id}>
              <Table.Td data-title="When">
                <Time at={entry.created_at} />
              </Table.Td>
              <Table.Td data-title="What">{whatOf(entry)}</Table.Td>
              <Table.Td data-title="Amount" ta="right" className="figures">
                {entry.amount > 0 && '+'}
                {exactText(entry.amount, currency)}
              </Table.Td>
              <Table.Td data-title="Balance after" ta="right" className="figures">
                <Money amount={entry.balance_after} currency={currency} />
              </Table.Td>
              <Table.Td data-title="Entry">
                <CopyId value={entry.id} />
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
