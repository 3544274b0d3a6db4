import { Button, Progress, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reading } from '../api/queries';
import { type Column, DataTable } from '../parts/data-table';
import { Guarded } from '../parts/guarded';
import { Money, moneyText } from '../parts/money';
import { Name } from '../parts/names';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { Time } from '../parts/time';
import { type ApprovalRule, DeleteRuleDialog, RuleDialog } from '../tickets/rules';

/** An organization has no more. */
const RULES_MAX = 50;

/** Rules that approve small calls at once, so that nobody has to. */
export function ApprovalRules() {
  return (
    <Guarded title="Approval rules" rights={['org:billing']}>
      <Inside />
    </Guarded>
  );
}

function Inside() {
  const query = useQuery(reading('GET /api/approval-rules', { query: { per_page: RULES_MAX } }));
  const [is_making, { open, close }] = useDisclosure();
  const [changing, setChanging] = useState<ApprovalRule>();
  const [deleting, setDeleting] = useState<ApprovalRule>();
  return (
    <Page
      title="Approval rules"
      about="A call that a rule covers is approved at once; all others wait for a person."
      actions={<Button onClick={open}>New rule</Button>}
    >
      <DataTable
        label="Approval rules"
        query={query}
        itemsOf={({ approval_rules }) => approval_rules}
        keyOf={({ id }) => id}
        columns={columns}
        empty={
          <Empty title="No rules">
            Without one, each call that no wallet or budget covers waits for a person.
          </Empty>
        }
        actions={(rule) => (
          <>
            <Button size="compact-sm" variant="default" onClick={() => setChanging(rule)}>
              Change
            </Button>
            <Button size="compact-sm" variant="default" onClick={() => setDeleting(rule)}>
              Delete
            </Button>
          </>
        )}
      />
      <RuleDialog opened={is_making} onClose={close} />
      <RuleDialog
        opened={changing !== undefined}
        rule={changing}
        onClose={() => setChanging(undefined)}
      />
      <DeleteRuleDialog rule={deleting} onClose={() => setDeleting(undefined)} />
    </Page>
  );
}

const columns: Column<ApprovalRule>[] = [
  { title: 'Name', cell: ({ name }) => <span className="wrap">{name}</span> },
  {
    title: 'Calls of',
    cell: ({ team_id }) => (team_id ? <Name id={team_id} /> : <span>everybody</span>),
  },
  {
    title: 'Up to, a call',
    cell: ({ max_per_call, currency }) => <Money amount={max_per_call} currency={currency} />,
    is_number: true,
  },
  { title: 'Approved today', cell: (rule) => <Today rule={rule} /> },
  {
    title: 'Paid by',
    cell: ({ source }) => (
      <span>{source === 'team' ? "the team's wallet" : 'the organization'}</span>
    ),
  },
  { title: 'Begins anew', cell: ({ day_ends_at }) => <Time at={day_ends_at} /> },
];

function Today({ rule }: { rule: ApprovalRule }) {
  const { approved_today, approvals_today, max_per_day, currency } = rule;
  const share = Math.min(100, (approved_today / max_per_day) * 100);
  const words = `${moneyText(approved_today, currency)} of ${moneyText(max_per_day, currency)}`;
  return (
    <div>
      <Text size="sm" className="figures">
        <Money amount={approved_today} currency={currency} /> of{' '}
        <Money amount={max_per_day} currency={currency} />,{' '}
        {approvals_today === 1 ? '1 call' : `${approvals_today} calls`}
      </Text>
      <Progress value={share} size="sm" aria-label={words} color={share >= 90 ? 'red' : 'indigo'} />
    </div>
  );
}
