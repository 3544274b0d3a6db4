import { Button, Progress, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading } from '../api/queries';
import type { ReadPart } from '../api/whole';
import type { AnyColumn } from '../base/csv';
import { decimalText } from '../base/decimals';
import { CsvButton } from '../parts/csv';
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
  const query = useQuery({
    ...reading('GET /api/approval-rules', { query: { per_page: RULES_MAX } }),
    // No event tells of them.
    refetchInterval: 30_000,
  });
  const [is_making, { open, close }] = useDisclosure();
  const [changing, setChanging] = useState<ApprovalRule>();
  const [deleting, setDeleting] = useState<ApprovalRule>();
  return (
    <Page
      title="Approval rules"
      about="A call that a rule covers is approved at once; all others wait for a person."
      actions={
        <>
          <CsvButton file="approval-rules" read={read} columns={csv} />
          <Button onClick={open}>New rule</Button>
        </>
      }
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

/** All of them are one page. */
const read: ReadPart<ApprovalRule> = async () => {
  const query = { per_page: RULES_MAX };
  const { approval_rules } = await call('GET /api/approval-rules', { query });
  return { items: approval_rules, next: null };
};

const csv: AnyColumn<ApprovalRule>[] = [
  { title: 'id', text: ({ id }) => id },
  { title: 'name', text: ({ name }) => name },
  { title: 'team_id', text: ({ team_id }) => team_id },
  { title: 'team_name', name_of: ({ team_id }) => team_id },
  { title: 'max_per_call', text: ({ max_per_call }) => decimalText(max_per_call) },
  { title: 'max_per_day', text: ({ max_per_day }) => decimalText(max_per_day) },
  { title: 'approved_today', text: ({ approved_today }) => decimalText(approved_today) },
  { title: 'approvals_today', text: ({ approvals_today }) => String(approvals_today) },
  { title: 'day_ends_at', text: ({ day_ends_at }) => day_ends_at },
  { title: 'currency', text: ({ currency }) => currency },
  { title: 'paid_by', text: ({ source }) => source },
  { title: 'created_by', text: ({ created_by }) => created_by },
  { title: 'created_by_name', name_of: ({ created_by }) => created_by },
  { title: 'created_at', text: ({ created_at }) => created_at },
];

const columns: Column<ApprovalRule>[] = [
  { title: 'Name', cell: ({ name }) => <span className="wrap">{name}</span> },
  {
    title: 'Calls of',
    cell: ({ team_id }) => (team_id ? <Name id={team_id} /> : <span>everybody</span>),
  },
  {
    title: 'Limit per call',
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
  { title: 'Resets', cell: ({ day_ends_at }) => <Time at={day_ends_at} /> },
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
