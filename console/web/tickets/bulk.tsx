import { Button, Group, List, Text } from '@mantine/core';
import { useState } from 'react';
import { type Answer, call } from '../api/client';
import { refresh } from '../api/queries';
import { FormModal } from '../parts/form-modal';

type Results = Answer<'POST /api/tickets/verdicts'>['results'];

const TOGETHER_MAX = 50;

/** Decides about several tickets; each has a result of its own. */
export function BulkDecision({
  chosen,
  shown,
  choose,
  clear,
}: {
  chosen: ReadonlySet<string>;
  /** Those of the page that can be decided about. */
  shown: readonly string[];
  choose: (ids: readonly string[]) => void;
  /** Takes these out of the choice; without any, all. */
  clear: (ids?: readonly string[]) => void;
}) {
  const [verdict, setVerdict] = useState<'approve' | 'deny'>();
  const [results, setResults] = useState<Results>();
  const ids = [...chosen].slice(0, TOGETHER_MAX);
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
          <List>
            {results.map(({ ticket_id, ticket, error }) => (
              <List.Item key={ticket_id}>
                {ticket ? `${ticket.asked_by}: ${ticket.status}` : error?.message}
              </List.Item>
            ))}
          </List>
        ) : (
          <Text>
            {verdict === 'deny'
              ? 'Each caller is told at once.'
              : 'Each gets exactly what is missing, one after the other.'}
          </Text>
        )}
      </FormModal>
    </Group>
  );
}
