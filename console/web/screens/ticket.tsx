import { Alert, Button, Group, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useParams } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { windowWords } from '../fields/window-select';
import { CopyId } from '../parts/copy-id';
import { AppLink, LinkButton } from '../parts/link';
import { Money } from '../parts/money';
import { Name, PersonName } from '../parts/names';
import { Page } from '../parts/page';
import { Failure, Loading } from '../parts/states';
import { Countdown, Time } from '../parts/time';
import { missingInBank } from '../payments/top-up';
import { ledTeams, type Me, may, useMe } from '../session/me';
import { ApproveDialog, BudgetAlerts, DenyDialog } from '../tickets/decide';
import { type CostTicket, ownerWords, TicketState } from '../tickets/words';

/** One ticket: who asks for what, what is missing where, and what was decided. */
export function Ticket() {
  const { id = '' } = useParams({ strict: false }) as { id?: string };
  const me = useMe();
  const { data, error, refetch } = useQuery({
    ...reading('GET /api/tickets/:id', { names: { id } }),
    refetchInterval: 15_000,
  });
  const [dialog, setDialog] = useState<'approve' | 'deny'>();
  if (error && data === undefined)
    return (
      <Page title="Ticket">
        <Failure error={error} retry={() => void refetch()} />
      </Page>
    );
  if (data === undefined) return <Loading />;
  const may_decide = data.status === 'open' && decides(me, data);
  const missing = missingInBank(data);
  const close = () => setDialog(undefined);
  return (
    <Page
      title={`Ticket of ${data.asked_by}`}
      about={<TicketState ticket={data} />}
      actions={
        may_decide && (
          <>
            {approves(me, data) && <Button onClick={() => setDialog('approve')}>Approve</Button>}
            <Button variant="default" onClick={() => setDialog('deny')}>
              Deny
            </Button>
            {missing > 0 && (
              <LinkButton
                variant="default"
                to="/top-up"
                search={{ amount: String(missing), target: 'organization' }}
              >
                Top up this much
              </LinkButton>
            )}
          </>
        )
      }
    >
      {data.status === 'open' && data.waiting_calls > 0 && (
        <Alert color="yellow" title="A call is waiting now">
          It goes on by itself as soon as it is covered.
        </Alert>
      )}
      {data.status === 'open' && <BudgetAlerts ticket={data} />}
      {may_decide && !approves(me, data) && (
        <Text>Raising this budget needs the right org:billing. You may still deny the call.</Text>
      )}
      <Facts ticket={data} />
      <Shortfalls ticket={data} />
      <ApproveDialog ticket={dialog === 'approve' ? data : undefined} onClose={close} />
      <DenyDialog ticket={dialog === 'deny' ? data : undefined} onClose={close} />
    </Page>
  );
}

/** False for the admin of a team where a budget is not theirs to raise. */
function approves(me: Me, { user_id, budgets = [] }: CostTicket): boolean {
  if (may(me, 'org:billing')) return true;
  const own = me.user?.user_id;
  return !budgets.some(
    ({ owner_type, owner_id }) =>
      owner_type === 'team' ||
      owner_type === 'organization' ||
      owner_id === own ||
      (owner_type === 'key' && user_id === own),
  );
}

function decides(me: Me, { team_id }: CostTicket): boolean {
  return may(me, 'org:billing') || (team_id !== null && ledTeams(me).includes(team_id));
}

function Facts({ ticket }: { ticket: CostTicket }) {
  const { currency } = ticket;
  const facts: [string, ReactNode][] = [
    ['Model', `${ticket.provider} ${ticket.model}`],
    [
      'Costs at most',
      <Money key="cost" amount={ticket.estimated_cost} currency={currency} is_most />,
    ],
    ['Person', ticket.user_id ? <PersonName key="person" id={ticket.user_id} /> : 'none'],
    ['Team', ticket.team_id ? <Name key="team" id={ticket.team_id} /> : 'none'],
    ['Agent', ticket.agent_id ? <Name key="agent" id={ticket.agent_id} /> : 'none'],
    ['Key', ticket.key_id ? <Name key="key" id={ticket.key_id} /> : 'none'],
    ['Opened', <Time key="opened" at={ticket.created_at} />],
    [
      'Ends',
      ticket.status === 'open' ? (
        <Countdown key="ends" until={ticket.expires_at} now_ms={serverNow} />
      ) : (
        <Time key="ends" at={ticket.expires_at} />
      ),
    ],
    ...decision(ticket),
    ...closedBudgets(ticket),
    ['Ticket', <CopyId key="id" value={ticket.id} />],
  ];
  if (ticket.request_id)
    facts.push([
      'Call',
      <AppLink key="call" to={`/requests/${ticket.request_id}`}>
        its whole story
      </AppLink>,
    ]);
  return (
    <Table variant="vertical" layout="fixed" aria-label="The ticket">
      <Table.Tbody>
        {facts.map(([name, value]) => (
          <Table.Tr key={name}>
            <Table.Th w={140}>{name}</Table.Th>
            <Table.Td className="wrap">{value}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function decision(ticket: CostTicket): [string, ReactNode][] {
  if (ticket.decided_at === null) return [];
  return [
    [
      'Decided',
      <Group key="decided" gap={4}>
        <PersonName id={ticket.decided_by} />
        <Time at={ticket.decided_at} />
      </Group>,
    ],
    ...(ticket.note ? ([['Note', ticket.note]] as [string, ReactNode][]) : []),
    ...(ticket.credited_amount
      ? ([
          [
            'Added',
            <Money key="added" amount={ticket.credited_amount} currency={ticket.currency} />,
          ],
        ] as [string, ReactNode][])
      : []),
  ];
}

/** Which budgets a closed ticket was about, a line each. */
function closedBudgets({ status, budgets = [], currency }: CostTicket): [string, ReactNode][] {
  if (status === 'open' || budgets.length === 0) return [];
  const lines = budgets.map(({ id, owner_type, window, limit, missing, raised }) => (
    <Text key={id}>
      of {ownerWords(owner_type)}, <Money amount={limit} currency={currency} />{' '}
      {windowWords(window)}: {raised === undefined ? 'short by ' : 'raised by '}
      <Money amount={raised ?? missing} currency={currency} is_most />
    </Text>
  ));
  return [[budgets.length === 1 ? 'Budget' : 'Budgets', lines]];
}

function Shortfalls({ ticket }: { ticket: CostTicket }) {
  if (ticket.status !== 'open') return null;
  return (
    <Table.ScrollContainer minWidth={0} type="native" className="table">
      <Table aria-label="What is missing in each wallet">
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Wallet</Table.Th>
            <Table.Th ta="right">Has</Table.Th>
            <Table.Th ta="right">Missing</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {ticket.wallets.map((wallet) => (
            <Table.Tr key={wallet.wallet_id}>
              <Table.Td data-title="Wallet">
                <AppLink to={`/wallets/${wallet.wallet_id}`}>
                  of {ownerWords(wallet.owner_type)}
                </AppLink>
              </Table.Td>
              <Table.Td data-title="Has" ta="right">
                <Money amount={wallet.balance} currency={ticket.currency} />
              </Table.Td>
              <Table.Td data-title="Missing" ta="right">
                {wallet.shortfall > 0 ? (
                  <Money amount={wallet.shortfall} currency={ticket.currency} is_most />
                ) : (
                  <Text component="span" c="dimmed">
                    nothing
                  </Text>
                )}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
