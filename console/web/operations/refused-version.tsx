import { Alert, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';

const LOOK_MS = 5_000;

/** Which gateways refuse the configuration that they are to run, and why; nothing if none does. */
export function RefusedVersion() {
  const { data } = useQuery({ ...reading('GET /api/gateway-config'), refetchInterval: LOOK_MS });
  const refusing = (data?.gateways ?? []).filter(
    ({ refused_version }) => refused_version !== null && refused_version === data?.version,
  );
  if (refusing.length === 0) return null;
  return (
    <Alert color="red" role="status" title={`Version ${data?.version} is refused`}>
      {refusing.map(({ id, host, error }) => (
        <Text key={id}>
          {host}: {error ?? 'no reason was given'}
        </Text>
      ))}
    </Alert>
  );
}
