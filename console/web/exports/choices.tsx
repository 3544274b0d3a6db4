import { Checkbox, Select, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { may, useMe } from '../session/me';
import { type Format, formats, guarded, type Kind, kindNames, kinds } from './words';

/** What to write; what needs a right that the person lacks cannot be chosen. */
export function KindChoice({
  value,
  onChange,
}: {
  value: readonly Kind[];
  onChange: (value: Kind[]) => void;
}) {
  const sees_events = may(useMe(), 'events:read');
  return (
    <Checkbox.Group
      label="Contents"
      value={[...value]}
      onChange={(chosen) => onChange(kindNames.filter((kind) => chosen.includes(kind)))}
    >
      <Stack gap={6} mt={4}>
        {kindNames.map((kind) => (
          <Checkbox
            key={kind}
            value={kind}
            label={kinds[kind]}
            disabled={!sees_events && guarded.includes(kind)}
          />
        ))}
      </Stack>
    </Checkbox.Group>
  );
}

/** Which form, and which bucket if the organization has any. */
export function FormChoice({
  format,
  onFormat,
  destination,
  onDestination,
}: {
  format: Format;
  onFormat: (format: Format) => void;
  destination: string | null;
  onDestination: (id: string | null) => void;
}) {
  const { data } = useQuery(reading('GET /api/export-destinations', { query: { per_page: 200 } }));
  const buckets = data?.destinations ?? [];
  return (
    <>
      <Select
        label="Format"
        data={Object.entries(formats).map(([value, label]) => ({ value, label }))}
        value={format}
        onChange={(value) => onFormat((value ?? 'csv') as Format)}
        allowDeselect={false}
      />
      {buckets.length > 0 && (
        <Select
          label="Destination"
          description={data?.has_more ? 'The newest 200 buckets.' : undefined}
          placeholder="Download here"
          data={buckets.map(({ id, bucket, endpoint }) => ({
            value: id,
            label: `${bucket} at ${new URL(endpoint).host}`,
          }))}
          value={destination}
          onChange={onDestination}
          clearable
          clearButtonProps={{ 'aria-label': 'Keep it here, to download' }}
        />
      )}
    </>
  );
}
