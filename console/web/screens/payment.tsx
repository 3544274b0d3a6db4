import { Alert, Button, Group, SimpleGrid, Stack, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { reading } from '../api/queries';
import { State } from '../parts/badge';
import { CopyId } from '../parts/copy-id';
import { FactTable } from '../parts/facts';
import { AppLink } from '../parts/link';
import { Money, moneyText } from '../parts/money';
import { Name, OrgName, PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { Failure, Loading } from '../parts/states';
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
  if (!is_known || payment === undefined) return <Loading />;
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
          {!me.is_operator && is_refundable && may(me, 'org:billing') && (
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
 * A payment by its id. What operators see beside it is in their list alone, where it is found by
 * the moment at which it was made.
 */
function usePayment(id: string) {
  const { is_operator } = useMe();
  const one = useQuery({
    ...reading('GET /api/payments/sessions/:id', { names: { id } }),
    refetchInterval: ({ state }) =>
      state.data && OVER.includes(state.data.status) ? false : 5_000,
  });
  const from_date = one.data?.created_at;
  // The millisecond in which it was made, so that no page of others hides it.
  const to_date = from_date && new Date(Date.parse(from_date) + 1).toISOString();
  // Of its own organization, whichever the operator acts in.
  const org_id = one.data?.org_id;
  const listed = useQuery({
    ...reading('GET /api/admin/payments', { query: { org_id, from_date, to_date, per_page: 200 } }),
    enabled: is_operator && from_date !== undefined,
    refetchInterval: 10_000,
  });
  const admin = listed.data?.sessions.find((each) => each.id === id);
  const is_known = one.data !== undefined && (!is_operator || !listed.isPending);
  const payment: OnePayment | undefined = admin ?? one.data;
  const refetch = () => {
    void one.refetch();
    if (is_operator) void listed.refetch();
  };
  return { payment, admin, error: one.error ?? listed.error, refetch, is_known };
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
