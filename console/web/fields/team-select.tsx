import { Select } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { reading } from '../api/queries';
import { useMe } from '../session/me';

const SHOWN = 20;

/** One of the organization's teams, sought at the server by name: there may be thousands. */
export function TeamSelect({
  label,
  description,
  placeholder,
  none,
  value,
  onChange,
  w,
}: {
  label: string;
  description?: string;
  placeholder?: string;
  /** What the button says that takes the choice away. */
  none: string;
  value: string | null;
  onChange: (team_id: string | null) => void;
  w?: number;
}) {
  const id = useMe().acting_org ?? '';
  const [typed, setTyped] = useState('');
  const [q] = useDebouncedValue(typed, 250);
  const { data: chosen } = useQuery({
    ...reading('GET /api/organizations/:id/teams/:team_id', {
      names: { id, team_id: value ?? '' },
    }),
    enabled: id !== '' && value !== null,
  });
  // The field shows the name of what is chosen, which is no search.
  const is_search = q !== '' && q !== chosen?.name;
  const { data } = useQuery({
    ...reading('GET /api/organizations/:id/teams', {
      names: { id },
      query: {
        ...(is_search ? { q } : {}),
        status: 'active',
        cursor: 'first',
        per_page: SHOWN,
        sort: 'name',
      },
    }),
    enabled: id !== '',
  });
  const found = (data?.teams ?? []).map((team) => ({ value: team.id, label: team.name }));
  const is_listed = value === null || found.some((one) => one.value === value);
  const own = is_listed || !chosen ? [] : [{ value: chosen.id, label: chosen.name }];
  return (
    <Select
      label={label}
      description={
        data?.has_more ? `${description ?? ''} Type to find others.`.trim() : description
      }
      placeholder={placeholder}
      data={[...own, ...found]}
      value={value}
      onChange={onChange}
      onSearchChange={setTyped}
      filter={({ options }) => options}
      nothingFoundMessage="No team has this name"
      clearable
      clearButtonProps={{ 'aria-label': none }}
      searchable
      w={w}
    />
  );
}
