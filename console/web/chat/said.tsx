import { Button, Card, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { reading } from '../api/queries';
import { State } from '../parts/badge';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import type { ChatMessage } from './message';

type Cost = NonNullable<ChatMessage['cost']>;

/** One message: a person's, or an answer with its cost, and how it ended if it is not whole. */
export function Said({
  message,
  onPrice,
  onAnew,
}: {
  message: ChatMessage;
  /** Hears what an answer has cost that did not say so itself. */
  onPrice?: (request_id: string, cost: Cost) => void;
  /** Asks the question anew; undefined: that is not possible now. */
  onAnew?: (() => void) | undefined;
}) {
  const { role, content, model, ended } = message;
  const is_mine = role === 'user';
  return (
    <Card
      withBorder
      padding="sm"
      maw="min(100%, 46rem)"
      style={{ alignSelf: is_mine ? 'flex-end' : 'flex-start' }}
      component="article"
      aria-label={is_mine ? 'You' : 'Answer'}
    >
      <Text className="said">{content}</Text>
      {ended && <Ended message={message} onAnew={onAnew} />}
      {model && <Price message={message} onPrice={onPrice} />}
    </Card>
  );
}

function Ended({
  message: { ended, is_left_out },
  onAnew,
}: {
  message: ChatMessage;
  onAnew: (() => void) | undefined;
}) {
  if (ended === undefined) return null;
  return (
    <>
      <Group gap="xs" mt={4} align="flex-start" wrap="nowrap">
        <State word={ended.how} kind={ended.how === 'stopped' ? 'neutral' : 'bad'} />
        <Text size="sm">
          {ended.words}{' '}
          {is_left_out
            ? 'It was asked anew, so it is not sent along any more.'
            : 'What came is sent along with your next message.'}
        </Text>
      </Group>
      {onAnew && !is_left_out && (
        <Group gap="xs" mt={4}>
          <Button size="xs" variant="default" onClick={onAnew}>
            Try again
          </Button>
          <Text size="sm" c="dimmed">
            A new call without this answer, with a cost of its own.
          </Text>
        </Group>
      )}
    </>
  );
}

function Price({
  message: { model, cost, request_id },
  onPrice,
}: {
  message: ChatMessage;
  onPrice: ((request_id: string, cost: Cost) => void) | undefined;
}) {
  return (
    <Group gap="xs" mt={4}>
      <Text size="sm" c="dimmed">
        {model}
        {cost ? ', cost ' : ', its cost follows in the ledger'}
        {cost && <Money amount={cost.amount} currency={cost.currency} />}
      </Text>
      {request_id && !cost && onPrice && <LateCost {...{ request_id, onPrice }} />}
      {request_id && (
        <Text size="sm">
          <AppLink to={`/requests/${request_id}`}>How that adds up</AppLink>
        </Text>
      )}
    </Group>
  );
}

const TRIES_MAX = 8;
const FIRST_PAUSE_MS = 500;

/** Asks the story of a call for its cost until it is settled, a few times within two minutes. */
function LateCost({
  request_id,
  onPrice,
}: {
  request_id: string;
  onPrice: (request_id: string, cost: Cost) => void;
}) {
  const { data } = useQuery({
    ...reading('GET /api/requests/:id', { names: { id: request_id } }),
    refetchInterval: ({ state }) => {
      const tries = state.dataUpdateCount + state.errorUpdateCount;
      return state.data?.settlement || tries >= TRIES_MAX ? false : FIRST_PAUSE_MS * 2 ** tries;
    },
  });
  const settlement = data?.settlement;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, as it is known.
  useEffect(() => {
    if (settlement)
      onPrice(request_id, { amount: settlement.actual_cost, currency: settlement.currency });
  }, [settlement === undefined || settlement === null]);
  return null;
}
