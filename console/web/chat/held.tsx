import { Alert, Button, Group, Loader, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { roundedUp } from '../base/decimals';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { LinkButton } from '../parts/link';
import { inputDigits, Money, moneyText } from '../parts/money';
import { Countdown, Time } from '../parts/time';
import { rememberCheckout } from '../payments/checkouts';
import { obstacle } from '../payments/obstacle';
import { missingInBank } from '../payments/top-up';
import type { LeftTicket } from './conversation';
import type { HeldTicket } from './message';

/** A message that waits for money: its ticket, and how it goes on. */
export function Held({ ticket, onStop }: { ticket: HeldTicket; onStop: () => void }) {
  const [is_paying, setPaying] = useState(false);
  const { data: settings } = useQuery(reading('GET /api/chat/payments/options'));
  const may_pay =
    settings !== undefined && obstacle(settings, location.origin, 'organization') === undefined;
  return (
    <Alert color="yellow" title="Your message waits for money" role="status">
      <Text size="sm">
        It may cost up to{' '}
        <Money amount={ticket.estimated_cost} currency={ticket.currency} is_most />;{' '}
        <Money amount={missingInBank(ticket)} currency={ticket.currency} fw={700} is_most /> are
        missing in your organization's wallet. Whoever decides has been told. It is answered here as
        soon as it is paid or approved. Its ticket{' '}
        <Countdown until={ticket.expires_at} now_ms={serverNow} verb="ends" />
      </Text>
      <Group mt="sm" gap="xs">
        <Loader size="xs" aria-label="Waiting" />
        {may_pay && <Button onClick={() => setPaying(true)}>Top up</Button>}
        <LinkButton to={`/tickets/${ticket.id}`} variant="default">
          See the ticket
        </LinkButton>
        <Button variant="default" onClick={onStop}>
          Do not wait
        </Button>
      </Group>
      <TopUpHere opened={is_paying} onClose={() => setPaying(false)} ticket={ticket} />
    </Alert>
  );
}

/** What becomes of the ticket of a message that was taken back while it waited. */
export function Left({
  left: { ticket, is_redeemed = false },
  onRedeemed,
}: {
  left: LeftTicket;
  /** Hears that the ticket had paid for its call before that was stopped. */
  onRedeemed: () => void;
}) {
  const { data } = useQuery({
    ...reading('GET /api/tickets/:id', { names: { id: ticket.id } }),
    enabled: !is_redeemed,
    refetchInterval: 5_000,
  });
  const status = is_redeemed ? 'redeemed' : data?.status;
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, as it is known.
  useEffect(() => {
    if (status === 'redeemed' && !is_redeemed) onRedeemed();
  }, [status]);
  if (status === 'redeemed')
    return (
      <Alert color="yellow" title="It was paid just before you stopped" role="status">
        <Text size="sm">
          The model had begun, so its work is charged. Send the message again for a new call, with a
          cost of its own.
        </Text>
        <SeeTicket id={ticket.id} />
      </Alert>
    );
  const is_over = status === 'denied' || status === 'expired';
  if (is_over || Date.parse(ticket.expires_at) <= serverNow()) return null;
  return (
    <Alert color="yellow" title="You stopped waiting" role="status">
      <Text size="sm">
        Nothing was charged so far. The ticket of your message stays open until{' '}
        <Time at={ticket.expires_at} />: if somebody approves it, money is held for it until then,
        and goes back if nobody uses it. Ask the same again, of the same model, and it goes on with
        this ticket.
      </Text>
      <SeeTicket id={ticket.id} />
    </Alert>
  );
}

function SeeTicket({ id }: { id: string }) {
  return (
    <Group mt="sm">
      <LinkButton to={`/tickets/${id}`} variant="default">
        See the ticket
      </LinkButton>
    </Group>
  );
}

/** Buys balance for the organization, without losing the conversation. */
function TopUpHere({
  opened,
  onClose,
  ticket,
}: {
  opened: boolean;
  onClose: () => void;
  ticket: HeldTicket;
}) {
  const { currency } = ticket;
  const shortfall = missingInBank(ticket);
  const { data: settings } = useQuery(reading('GET /api/chat/payments/options'));
  const [amount, setAmount] = useState<number | string>('');
  const typed = typedNumber(amount);
  const min = settings?.min_topup_amount ?? 0;
  const max = settings?.max_topup_amount ?? Number.POSITIVE_INFINITY;
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is missing may change while somebody types.
  useEffect(() => {
    if (opened) setAmount(roundedUp(Math.max(shortfall, min), inputDigits(currency)));
  }, [opened, settings === undefined]);
  const submit = async (idempotency_key: string) => {
    if (typed === undefined) return;
    // The server writes the surface and the organization's wallet over what stands here.
    const made = await call('POST /api/chat/payments/create-checkout', {
      body: {
        amount: typed,
        surface: 'chat',
        target_wallet_owner_type: 'organization',
        return_url: `${location.origin}/top-up/return`,
        // The key is the same at each try, as the body has to be.
        cancel_url: `${location.origin}/chat?canceled=${idempotency_key}`,
      },
      idempotency_key,
    });
    rememberCheckout(made, idempotency_key);
    location.assign(made.approval_url);
  };
  return (
    <FormModal
      title="Top up"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Pay"
      is_ready={typed !== undefined && typed >= min && typed <= max}
    >
      <Text size="sm">
        You pay at the payment provider and come back. The money goes to your organization's wallet,
        and your message is answered.
      </Text>
      <AmountInput
        label={`Amount in ${currency}`}
        description={settings && `From ${moneyText(min, currency)} to ${moneyText(max, currency)}`}
        currency={currency}
        value={amount}
        onChange={setAmount}
        digits={inputDigits(currency)}
        data-autofocus
      />
    </FormModal>
  );
}
