import { Button, Group, List, ScrollArea, Text } from '@mantine/core';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { refresh } from '../api/queries';
import { amountOf } from '../base/decimals';
import { FormModal } from '../parts/form-modal';
import { Money } from '../parts/money';
import { PersonName } from '../parts/names';
import { may, useMe } from '../session/me';
import { useCredits } from '../session/rules';
import { addedTogether } from './together';
import { type CostTicket, missingWords } from './words';

type Results = Answer<'POST /api/tickets/verdicts'>['results'];

const TOGETHER_MAX = 50;

/** Decides about several tickets, whose callers and amounts it names; each has its own result. */
export function BulkDecision({
  chosen,
  shown,
  choose,
  clear,
}: {
  /** As they were when they were chosen, by id. */
  chosen: ReadonlyMap<string, CostTicket>;
  /** Those of the page that can be decided about. */
  shown: readonly CostTicket[];
  choose: (tickets: readonly CostTicket[]) => void;
  /** Takes these out of the choice; without any, all. */
  clear: (ids?: readonly string[]) => void;
}) {
  const [verdict, setVerdict] = useState<'approve' | 'deny'>();
  const [results, setResults] = useState<Results>();
  const tickets = [...chosen.values()].slice(0, TOGETHER_MAX);
  const ids = tickets.map(({ id }) => id);
  const close = () => {
    setVerdict(undefined);
    if (results) clear(ids);
    setResults(undefined);
  };
  if (ids.length === 0 && verdict === undefined)
    return shown.length < 2 ? null : (
      <Group>
        <Button size="xs" variant="default" onClick={() => choose(shown)}>
          Choose all {shown.length} shown
        </Button>
      </Group>
    );
  const submit = async (idempotency_key: string) => {
    if (results || verdict === undefined) return close();
    const body = { verdict, ticket_ids: ids };
    const answer = await call('POST /api/tickets/verdicts', { body, idempotency_key });
    setResults(answer.results);
    void refresh('/api/tickets', '/api/wallets');
  };
  const word = verdict === 'deny' ? 'Deny' : 'Approve';
  return (
    <Group gap="xs">
      <Text>
        {chosen.size} chosen{chosen.size > ids.length && `, of which ${ids.length} go at a time`}
      </Text>
      <Button size="xs" onClick={() => setVerdict('approve')}>
        Approve all
      </Button>
      <Button size="xs" variant="default" onClick={() => setVerdict('deny')}>
        Deny all
      </Button>
      <Button size="xs" variant="subtle" onClick={() => clear()}>
        Choose none
      </Button>
      <FormModal
        title={`${word} ${ids.length} calls`}
        opened={verdict !== undefined}
        onClose={close}
        submit={submit}
        label={results ? 'Done' : `${word} ${ids.length}`}
        is_dangerous={verdict === 'deny' && !results}
      >
        {results ? (
          <Outcomes {...{ results, chosen }} />
        ) : (
          <>
            <ScrollArea.Autosize mah={240} viewportProps={{ tabIndex: 0 }}>
              <List aria-label="Calls that are decided about">
                {tickets.map((ticket) => (
                  <List.Item key={ticket.id}>
                    {ticket.asked_by}, {ticket.model}: {missingWords(ticket)}
                  </List.Item>
                ))}
              </List>
            </ScrollArea.Autosize>
            <Text>
              {verdict === 'deny' ? 'Each caller is told at once.' : <Sum tickets={tickets} />}
            </Text>
          </>
        )}
      </FormModal>
    </Group>
  );
}

/** What approving costs, as far as it is money: the API adds for each what is missing then. */
function Sum({ tickets }: { tickets: readonly CostTicket[] }) {
  const is_of_team = !may(useMe(), 'org:billing');
  const { is_moved_only } = useCredits();
  const [first] = tickets;
  if (first === undefined) return null;
  const giver = is_of_team ? 'team' : is_moved_only ? 'organization' : null;
  const nanos = addedTogether(tickets, { giver, is_of_team });
  return (
    <>
      Each gets what is missing once those before it hold theirs:{' '}
      <Money amount={amountOf(nanos)} currency={first.currency} fw={700} is_most /> in all.
      {giver !== null && nanos > 0n && ` It moves from the wallet of the ${giver}.`}
    </>
  );
}

/** What became of each, by the name of its caller. */
function Outcomes({
  results,
  chosen,
}: {
  results: Results;
  chosen: ReadonlyMap<string, CostTicket>;
}) {
  const { user } = useMe();
  return (
    <List aria-label="What became of them">
      {results.map(({ ticket_id, ticket, error }) => {
        const { asked_by, model } = ticket ?? chosen.get(ticket_id) ?? {};
        return (
          <List.Item key={ticket_id}>
            {asked_by}, {model}: {ticket ? ticket.status : error?.message}
            {ticket?.decided_by && user && ticket.decided_by !== user.user_id && (
              <>
                , already by <PersonName id={ticket.decided_by} />
              </>
            )}
          </List.Item>
        );
      })}
    </List>
  );
}
