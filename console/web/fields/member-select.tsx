import { Select } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reading } from '../api/queries';
import { useMe } from '../session/me';

/** Somebody who is found. */
export interface Found {
  id: string;
  name: string;
}

/** One of the organization's members, sought at the server by name: there may be thousands. */
export function MemberSelect({
  label,
  value,
  onChange,
  flex,
  none,
}: {
  label: string;
  value: Found | null;
  onChange: (member: Found | null) => void;
  flex?: number;
  /** What no choice means, where one may be left out: `Show changes by anybody`. */
  none?: string;
}) {
  const id = useMe().acting_org ?? '';
  const [q, setQ] = useState('');
  const search = useDebouncedCallback(setQ, 250);
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id/members', {
      names: { id },
      query: { q, cursor: 'first', per_page: 20, sort: 'name' },
    }),
    enabled: id !== '',
  });
  const found = (data?.members ?? []).map((one) => ({ value: one.user_id, label: one.name }));
  const is_listed = value === null || found.some((one) => one.value === value.id);
  return (
    <Select
      label={label}
      placeholder="Search by name"
      data={is_listed ? found : [{ value: value.id, label: value.name }, ...found]}
      value={value?.id ?? null}
      onChange={(_, option) => onChange(option && { id: option.value, name: option.label })}
      onSearchChange={search}
      filter={({ options }) => options}
      nothingFoundMessage="Nobody has this name"
      searchable
      required={none === undefined}
      clearable={none !== undefined}
      {...(none === undefined ? {} : { clearButtonProps: { 'aria-label': none } })}
      flex={flex}
    />
  );
}
