import { Alert, Group, Stepper, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { type Answer, call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { isHeld } from '../chat/kept';
import { text, useFilters } from '../fields/filters';
import { LinkButton } from '../parts/link';
import { Money } from '../parts/money';
import { Page } from '../parts/page';
import { Empty, Failure, Loading } from '../parts/states';
import { checkoutOf, lastCheckout } from '../payments/checkouts';
import { wentOnWords } from '../payments/top-up';
import { isTakenAmiss, takenAmiss } from '../payments/words';
import { may, useMe } from '../session/me';

type Session = Answer<'GET /api/payments/sessions/:id'>;

const LOOK_MS = 2_000;
/** How many of the newest payments are searched for the one that comes back. */
const NEWEST = 50;

// How far along each state is; those below are ends without money.
const steps: Partial<Record<Session['status'], number>> = {
  created: 0,
  capturing: 1,
  captured: 1,
  confirming: 2,
  confirmed: 2,
  completed: 3,
  refunded: 3,
};
const ends = {
  canceled: 'The checkout was canceled: nothing was paid.',
  expired: 'The checkout has expired: nothing was paid.',
  failed: 'The payment did not go through.',
} as const;

/**
 * Where a buyer comes back to: a line that says how far the payment is. The provider tells the API
 * by itself, so this page may be closed, reloaded, or opened twice.
 */
export function TopUpReturn() {
  const [{ token }] = useFilters({ token: text });
  const { data, error, refetch } = useQuery({
    queryKey: ['/api/payments/sessions', 'returned', token ?? ''],
    queryFn: () => returned(token),
    refetchInterval: ({ state }) => (state.data && isOver(state.data) ? false : LOOK_MS),
  });
  const is_done = data?.status === 'completed';
  useEffect(() => {
    // Balances are read after the payment is completed, never with it.
    if (is_done) void refresh('/api/wallets', '/api/me', '/api/tickets', '/api/payments/history');
  }, [is_done]);
  if (error && data === undefined)
    return (
      <Page title="Top up">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  if (data === undefined) return <Loading label="Looking for your payment" />;
  if (data === null)
    return (
      <Page title="Top up">
        <Empty title="This payment is not one of yours">
          Only the person who started it sees it here. It is credited all the same.
        </Empty>
      </Page>
    );
  return (
    <Page title="Top up">
      <StateLine session={data} />
      <Outcome session={data} />
    </Page>
  );
}

function isOver(session: Session): boolean {
  return session.status in ends || (steps[session.status] ?? 0) === 3;
}

/** The payment that comes back, asked about at its provider while it is not over. */
async function returned(token: string | undefined): Promise<Session | null> {
  const { sessions } = await call('GET /api/payments/sessions', { query: { per_page: NEWEST } });
  const found = token
    ? sessions.find(({ provider_order_id }) => provider_order_id === token)
    : sessions.find(({ id }) => id === lastCheckout());
  if (found === undefined) return null;
  const kept = checkoutOf(found.id);
  if (isOver(found) || kept === undefined || !found.provider_order_id) return found;
  await call('POST /api/payments/confirm-checkout', {
    body: { ...kept, provider_session_token: found.provider_order_id },
  }).catch(() => undefined);
  return call('GET /api/payments/sessions/:id', { names: { id: found.id } });
}

function StateLine({ session }: { session: Session }) {
  const step = steps[session.status] ?? 0;
  return (
    <Stepper active={step} size="sm" aria-label={`The payment is ${session.status}`}>
      <Stepper.Step
        label="Paid"
        description="at the provider"
        loading={step === 0 && !isOver(session)}
      />
      <Stepper.Step label="Confirming" description="with the provider" loading={step === 1} />
      <Stepper.Step label="Credited" description="to the wallet" loading={step === 2} />
    </Stepper>
  );
}

function Outcome({ session }: { session: Session }) {
  const { user, org_id } = useMe();
  const { status, currency, credited_amount } = session;
  const is_held = user !== null && isHeld({ user_id: user.user_id, org_id });
  if (isTakenAmiss(session))
    return (
      <Alert color="yellow" title={takenAmiss.title} role="status">
        <Text>{takenAmiss.text}</Text>
        <LinkButton to={`/payments/${session.id}`} mt="sm" variant="default">
          See this payment
        </LinkButton>
      </Alert>
    );
  if (status in ends)
    return (
      <Alert color="red" title={ends[status as keyof typeof ends]} role="status">
        {session.error_message && <Text>{session.error_message}</Text>}
        <LinkButton to="/top-up" mt="sm">
          Try again
        </LinkButton>
      </Alert>
    );
  if (status === 'refunded')
    return <Alert color="yellow">This payment was sent back to its buyer.</Alert>;
  if (status !== 'completed')
    return (
      <Text role="status">
        Waiting for the provider to say that it is paid. You may close this page: it is credited all
        the same.
      </Text>
    );
  return (
    <Alert color="green" title="Credited" role="status">
      <Text>
        <Money amount={credited_amount} currency={currency} fw={700} /> was added to the wallet.{' '}
        <NewBalance session={session} />
      </Text>
      <Group mt="sm">
        {is_held && <LinkButton to="/chat">Back to the chat</LinkButton>}
        <LinkButton to={`/wallets/${session.wallet_id}`}>See the wallet</LinkButton>
        <LinkButton to="/top-up" variant="default">
          Top up again
        </LinkButton>
      </Group>
    </Alert>
  );
}

/** The balance now, and how many calls that waited went on since. */
function NewBalance({ session }: { session: Session }) {
  const { data: wallet } = useQuery(
    reading('GET /api/wallets/:id', { names: { id: session.wallet_id } }),
  );
  // Money of the organization frees everybody's calls, and whoever bills sees them.
  const is_own = !may(useMe(), 'org:billing');
  const { data: done } = useQuery(
    reading('GET /api/tickets', {
      query: {
        status: 'redeemed',
        cursor: 'first',
        per_page: 200,
        ...(is_own ? { mine: 'true' as const } : {}),
      },
    }),
  );
  if (wallet === undefined) return null;
  return (
    <>
      It now has <Money amount={wallet.balance} currency={wallet.currency} fw={700} />.
      {done &&
        ` ${wentOnWords(done.tickets, { since: session.created_at, is_own, has_more: done.has_more })}`}
    </>
  );
}
