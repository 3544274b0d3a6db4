import { Alert, Select, Text, Textarea } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { call, Refusal } from '../api/client';
import { nameOf } from '../api/names';
import { reading, refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { windowWords } from '../fields/window-select';
import { FormModal } from '../parts/form-modal';
import { AppLink } from '../parts/link';
import { exactText, Money, moneyText } from '../parts/money';
import { useLast } from '../parts/use-last';
import { type Me, may, useMe } from '../session/me';
import { useCredits } from '../session/rules';
import { fillable, sourceWords } from './sources';
import { type CostTicket, ownerWords } from './words';

interface Dialog {
  /** Undefined: the dialog is closed. */
  ticket: CostTicket | undefined;
  onClose: () => void;
}

// What a ticket answers once it has been decided, or has ended by itself.
const over = [
  'already_decided',
  'ticket_approved',
  'ticket_denied',
  'ticket_redeemed',
  'ticket_expired',
  'verdict_too_late',
];

/** Long enough to be read by somebody who looks elsewhere. */
const FASTER_MS = 15_000;

/**
 * Sends a verdict. When somebody else was faster that is no error: the ticket is shown as it
 * stands.
 */
async function decide(
  ticket: CostTicket,
  me: Me,
  send: () => Promise<CostTicket>,
): Promise<CostTicket> {
  try {
    const now = await send();
    // The same verdict of somebody else stands, and is answered as it is.
    const by = now.decided_by;
    if (by !== null && me.user !== null && by !== me.user.user_id) void sayFaster(now);
    return now;
  } catch (refusal) {
    if (!(refusal instanceof Refusal) || !over.includes(refusal.code)) throw refusal;
    const now = await call('GET /api/tickets/:id', { names: { id: ticket.id } });
    void sayFaster(now);
    return now;
  } finally {
    void refresh('/api/tickets', '/api/wallets');
  }
}

/** Says who was faster, and with what. */
async function sayFaster({ status, decided_by }: CostTicket): Promise<void> {
  const name = decided_by === null ? null : await deciderOf(decided_by);
  const verdict = status === 'denied' ? 'denied' : 'approved';
  const what = name ? `${name} has ${verdict} this call` : `This ticket is ${status}`;
  notifications.show({
    title: 'Already decided',
    message: `${what} already. Your decision changed nothing.`,
    autoClose: FASTER_MS,
  });
}

/** Who decided; null for whom the viewer may not see, and for what has no name. */
async function deciderOf(id: string): Promise<string | null> {
  return id === 'rule' ? 'A rule' : nameOf(id).catch(() => null);
}

/** The budgets that stop a call, and how full each is. */
export function BudgetAlerts({ ticket: { budgets = [], currency } }: { ticket: CostTicket }) {
  return budgets.map(({ id, owner_type, used, limit, missing, window }) => (
    <Alert key={id} color="yellow" title={`The budget of ${ownerWords(owner_type)}`}>
      <Money amount={used} currency={currency} /> of <Money amount={limit} currency={currency} />{' '}
      {windowWords(window)} are used. Approving raises it once by{' '}
      <Money amount={missing} currency={currency} fw={700} is_most />, which is missing.
    </Alert>
  ));
}

/** Approves: what is missing is prefilled, so that two clicks do it. */
export function ApproveDialog({ ticket, onClose }: Dialog) {
  const me = useMe();
  // The admin of a team pays from its wallet, and no more than what is missing.
  const is_exact = !may(me, 'org:billing');
  const { is_moved_only } = useCredits();
  const shown = useLast(ticket);
  const [wallet_id, setWallet] = useState<string | null>(null);
  // Nothing is typed: the server takes what is missing as the ticket is approved.
  const [amount, setAmount] = useState<number | string>();
  const [source, setSource] = useState<string | null>(null);
  const [note, setNote] = useState('');
  const { data: wallets } = useQuery({
    ...reading('GET /api/wallets', { query: { owner_type: 'organization', per_page: 1 } }),
    enabled: ticket !== undefined && may(me, 'org:billing'),
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: read anew, it leaves what was typed.
  useEffect(() => {
    if (ticket === undefined) return;
    const best = bestWallet(ticket, is_moved_only);
    setWallet(best?.wallet_id ?? null);
    setAmount(undefined);
    setSource(null);
    setNote('');
  }, [ticket?.id, is_moved_only]);
  if (shown === undefined) return null;
  const choices = fillable(shown.wallets, is_moved_only);
  const chosen = choices.find((one) => one.wallet_id === wallet_id);
  const is_blocked = choices.length === 0 && shown.wallets.length > 0;
  const is_short = (chosen?.shortfall ?? 0) > 0;
  const is_bank = chosen?.owner_type === 'organization';
  // To the last digit: a cent more would pay for another call.
  const prefilled = chosen?.shortfall ?? '';
  const typed = typedNumber(amount ?? prefilled);
  const bank = wallets?.wallets[0];
  const submit = async (idempotency_key: string) => {
    const body = {
      ...(is_short && amount !== undefined && typed !== undefined ? { amount: typed } : {}),
      ...(is_short && wallet_id ? { wallet_id } : {}),
      ...(is_short && source && !is_bank ? { from_wallet_id: source } : {}),
      ...(note === '' ? {} : { note }),
    };
    await decide(shown, me, () =>
      call('POST /api/tickets/:id/approve', { names: { id: shown.id }, body, idempotency_key }),
    );
    onClose();
  };
  return (
    <FormModal
      title="Approve this call"
      opened={ticket !== undefined}
      onClose={onClose}
      submit={submit}
      label="Approve"
      is_ready={!is_blocked && (!is_short || typed !== undefined)}
    >
      <Text>
        {shown.asked_by} asks {shown.model} for at most{' '}
        <Money amount={shown.estimated_cost} currency={shown.currency} is_most />.
      </Text>
      <BudgetAlerts ticket={shown} />
      {is_blocked && (
        <Alert color="yellow">
          The organization's wallet is filled by the platform only, and nobody else here has one.{' '}
          <AppLink to="/top-up" search={{ amount: String(shown.shortfall) }}>
            Top it up
          </AppLink>
          , and the call goes on.
        </Alert>
      )}
      {is_short && (
        <>
          <Select
            label="Wallet"
            data={choices.map((one) => ({
              value: one.wallet_id,
              label: `of ${ownerWords(one.owner_type)}: has ${moneyText(one.balance, shown.currency)}`,
            }))}
            value={wallet_id}
            onChange={(value) => {
              setWallet(value);
              setAmount(undefined);
            }}
            allowDeselect={false}
          />
          <AmountInput
            label={`Amount in ${shown.currency}`}
            description={`Missing: ${exactText(chosen?.shortfall ?? 0, shown.currency)}. ${sourceWords(
              `the wallet of ${ownerWords(chosen?.owner_type ?? 'organization')}`,
              { is_of_team: is_exact, is_moved: is_moved_only || source !== null },
            )}`}
            readOnly={is_exact}
            currency={shown.currency}
            value={amount ?? prefilled}
            onChange={setAmount}
            data-autofocus
          />
          {bank && !is_bank && !is_moved_only && (
            <Select
              label="The money"
              data={[
                { value: '', label: 'is credited by hand' },
                {
                  value: bank.wallet_id,
                  label: `comes from the organization, which has ${moneyText(bank.balance, bank.currency)}`,
                },
              ]}
              value={source ?? ''}
              onChange={(value) => setSource(value || null)}
              allowDeselect={false}
            />
          )}
        </>
      )}
      <Textarea
        label="Note"
        description="Optional; kept with the ticket."
        value={note}
        onChange={(event) => setNote(event.currentTarget.value)}
        maxLength={1_000}
        autosize
      />
    </FormModal>
  );
}

/** Denies: the caller is told at once, with the reason. */
export function DenyDialog({ ticket, onClose }: Dialog) {
  const me = useMe();
  const shown = useLast(ticket);
  const [reason, setReason] = useState('');
  // biome-ignore lint/correctness/useExhaustiveDependencies: read anew, it leaves what was typed.
  useEffect(() => {
    if (ticket !== undefined) setReason('');
  }, [ticket?.id]);
  if (shown === undefined) return null;
  const submit = async (idempotency_key: string) => {
    const body = reason === '' ? {} : { reason };
    await decide(shown, me, () =>
      call('POST /api/tickets/:id/deny', { names: { id: shown.id }, body, idempotency_key }),
    );
    onClose();
  };
  return (
    <FormModal
      title="Deny this call"
      opened={ticket !== undefined}
      onClose={onClose}
      submit={submit}
      label="Deny"
      is_dangerous
    >
      <Text>{shown.asked_by} is told at once. The call is not made, and nothing is charged.</Text>
      <Textarea
        label="Reason"
        description="Optional; the caller reads it."
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        maxLength={1_000}
        autosize
        data-autofocus
      />
    </FormModal>
  );
}

/** The wallet that the ticket itself counts its shortfall by: the fullest one. */
function bestWallet({ wallets, wallet_owner_type }: CostTicket, is_moved_only: boolean) {
  const choices = fillable(wallets, is_moved_only);
  return choices.find(({ owner_type }) => owner_type === wallet_owner_type) ?? choices[0];
}
