import { Alert, Button, Group, SimpleGrid, Stack, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { reading } from '../api/queries';
import { text, useFilters } from '../fields/filters';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { FactTable } from '../parts/facts';
import { AppLink } from '../parts/link';
import { Money, moneyText } from '../parts/money';
import { Name, OrgName, PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { Empty, Failure, Loading } from '../parts/states';
import { Time } from '../parts/time';
import { RefundDialog } from '../payments/refund';
import { ResolveDialog } from '../payments/resolve';
import { PaymentTimeline } from '../payments/timeline';
import {
  type AdminPayment,
  isRefundable,
  isToDecide,
  type Payment as OnePayment,
  providerWords,
  standing,
} from '../payments/words';
import { may, useMe } from '../session/me';

const OVER = ['completed', 'refunded', 'canceled', 'expired', 'failed'];

/** One payment: how it stands, what happened, and what can be done about it. */
export function Payment() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const { payment, admin, error, refetch, is_known } = usePayment(id);
  const me = useMe();
  const [dialog, setDialog] = useState<'refund' | 'resolve'>();
  if (error && payment === undefined)
    return (
      <Page title="Payment">
        <Failure error={error} retry={refetch} />
      </Page>
    );
  if (!is_known) return <Loading />;
  if (payment === undefined)
    return (
      <Page title="Payment">
        <Empty title="Open it from the list">
          Operators reach a payment by the list of <AppLink to="/payments">payments</AppLink>.
        </Empty>
      </Page>
    );
  const close = () => setDialog(undefined);
  const is_refundable = isRefundable(payment);
  return (
    <Page
      title={`Top-up of ${moneyText(payment.amount, payment.currency)}`}
      about={<CopyId value={id} />}
      actions={
        admin && (
          <>
            {is_refundable && (
              <Button color="red" variant="light" onClick={() => setDialog('refund')}>
                Refund
              </Button>
            )}
            {isToDecide(admin) && <Button onClick={() => setDialog('resolve')}>Decide</Button>}
          </>
        )
      }
    >
      <Group>
        <State {...standing(payment)} />
        <span>{standing(payment).means}</span>
      </Group>
      {admin && admin.open_disputes > 0 && (
        <Alert color="red">The buyer disputes it. Answer at the provider, in time.</Alert>
      )}
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="xl">
        <Stack gap="xs" component="section">
          <Title order={2} size="h4">
            What happened
          </Title>
          <PaymentTimeline payment={admin ?? payment} />
        </Stack>
        <Stack gap="xs" component="section">
          <Title order={2} size="h4">
            Facts
          </Title>
          <Facts payment={payment} admin={admin} />
          {!admin && is_refundable && may(me, 'org:billing') && (
            <span>
              Refunds are made by an operator of the platform. Give them the id above, and why.
            </span>
          )}
        </Stack>
      </SimpleGrid>
      {admin && (
        <>
          <RefundDialog payment={payment} opened={dialog === 'refund'} onClose={close} />
          <ResolveDialog payment={dialog === 'resolve' ? admin : undefined} onClose={close} />
        </>
      )}
    </Page>
  );
}

/**
 * A payment by its id. The API shows operators lists only, so theirs is found by the moment at
 * which it was made, which stands in the address.
 */
function usePayment(id: string) {
  const { is_operator } = useMe();
  const [{ made }] = useFilters({ made: text });
  const own = useQuery({
    ...reading('GET /api/payments/sessions/:id', { names: { id } }),
    enabled: !is_operator,
    refetchInterval: ({ state }) =>
      state.data && OVER.includes(state.data.status) ? false : 5_000,
  });
  const made_ms = Date.parse(made ?? '');
  const is_dated = Number.isFinite(made_ms);
  // The millisecond in which it was made, so that no page of others hides it.
  const to_date = is_dated ? new Date(made_ms + 1).toISOString() : '';
  const listed = useQuery({
    ...reading('GET /api/admin/payments', {
      query: { from_date: made, to_date, per_page: 200 },
    }),
    enabled: is_operator && is_dated,
    refetchInterval: 10_000,
  });
  const admin = listed.data?.sessions.find((one) => one.id === id);
  const payment: OnePayment | undefined = is_operator ? admin : own.data;
  const query = is_operator ? listed : own;
  const is_known = payment !== undefined || (is_operator && (!is_dated || listed.isSuccess));
  return { payment, admin, error: query.error, refetch: () => void query.refetch(), is_known };
}

function Facts({ payment, admin }: { payment: OnePayment; admin: AdminPayment | undefined }) {
  const { currency, target_wallet_owner_type: type, target_wallet_owner_id: owner } = payment;
  return (
    <FactTable
      label="Facts"
      facts={[
        ['Organization', admin && <OrgName id={admin.org_id} />],
        [
          'For',
          <AppLink key="for" to={`/wallets/${payment.wallet_id}`}>
            {type === 'organization' && 'the wallet of the organization'}
            {type === 'team' && owner && <Name id={owner} />}
            {type === 'user' && owner && <PersonName id={owner} />}
          </AppLink>,
        ],
        ['Ordered', <Money key="ordered" amount={payment.amount} currency={currency} />],
        [
          'Taken',
          admin && (
            <Money
              amount={admin.captured_amount}
              currency={admin.captured_currency ?? admin.currency}
            />
          ),
        ],
        ['Credited', <Money key="in" amount={payment.credited_amount} currency={currency} />],
        ['Sent back', <Money key="back" amount={payment.refunded_amount} currency={currency} />],
        ['Provider', providerWords(payment.provider)],
        ['Its order', payment.provider_order_id && <CopyId value={payment.provider_order_id} />],
        [
          'Its capture',
          payment.provider_capture_id && <CopyId value={payment.provider_capture_id} />,
        ],
        ['Could be paid until', <Time key="until" at={payment.expires_at} />],
        ['Paid after its end', payment.late ? 'yes' : undefined],
      ]}
    />
  );
}
