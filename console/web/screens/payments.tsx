import { Group, Stack, Tabs, Text } from '@mantine/core';
import { DayRange } from '../fields/day-range';
import { LinkButton } from '../parts/link';
import { Page } from '../parts/page';
import { usePaymentFilters } from '../payments/filters';
import { AllPayments, History, PaymentFilterBar } from '../payments/lists';
import { Providers } from '../payments/providers';
import { Webhooks } from '../payments/webhooks';
import { may, useMe } from '../session/me';

/** Top-ups and how they stand; for operators also those that need a decision, and webhooks. */
export function Payments() {
  const me = useMe();
  const [filters, set] = usePaymentFilters();
  if (me.is_operator) return <Platform />;
  const is_own = !may(me, 'org:billing');
  return (
    <Page
      title="Payments"
      about={is_own ? 'The top-ups that you began.' : 'The top-ups of the organization.'}
      actions={
        <>
          {!is_own && (
            <LinkButton to="/exports" search={{ kinds: 'payments' }} variant="default" size="xs">
              Full export
            </LinkButton>
          )}
          <LinkButton to="/top-up" size="xs">
            Top up
          </LinkButton>
        </>
      }
    >
      <PaymentFilterBar {...{ filters, set }} />
      <History {...{ filters, set, is_own }} />
    </Page>
  );
}

function Platform() {
  const me = useMe();
  const [filters, set] = usePaymentFilters();
  const tab = filters.tab ?? 'payments';
  return (
    <Page
      title="Payments"
      about={
        me.acting_org === null
          ? 'The top-ups of all organizations.'
          : 'The top-ups of the organization that you look at.'
      }
    >
      <Tabs
        value={tab}
        onChange={(value) => set({ tab: value as 'payments', status: undefined })}
        keepMounted={false}
      >
        <Tabs.List>
          <Tabs.Tab value="payments">All</Tabs.Tab>
          <Tabs.Tab value="failed">Failed</Tabs.Tab>
          <Tabs.Tab value="webhooks">Webhooks</Tabs.Tab>
          <Tabs.Tab value="providers">Providers</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="payments" pt="md">
          <Stack>
            <PaymentFilterBar {...{ filters, set }} />
            <AllPayments {...{ filters, set }} is_failed={false} />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="failed" pt="md">
          <Text mb="sm">
            Money that came in another amount or currency was not credited: it waits here for your
            decision.
          </Text>
          <Group gap="xs" align="flex-end">
            <DayRange days={filters} set={set} />
          </Group>
          <AllPayments {...{ filters, set }} is_failed />
        </Tabs.Panel>
        <Tabs.Panel value="webhooks" pt="md">
          <Webhooks {...{ filters, set }} />
        </Tabs.Panel>
        <Tabs.Panel value="providers" pt="md">
          <Providers />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}
