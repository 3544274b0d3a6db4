import { Button, Card, Group, Skeleton, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useRef } from 'react';
import { Refusal, send } from '../api/client';
import { reading } from '../api/queries';
import { serverNow } from '../base/clock';
import { State } from '../parts/badge';
import { AppLink } from '../parts/link';
import { gatewayLight, type Light, providerLights, workerLights } from './health';

const LOOK_MS = 15_000;

/** What the query of a part knows of it. */
interface Known<T> {
  data: T | undefined;
  error: Error | null;
}

/** What a look has told; while a part that was never read is asked anew, what was said of it. */
function useKnown<T>({ data, error, status }: Known<T> & { status: string }): Known<T> {
  const failed = useRef<Error | null>(null);
  if (status !== 'pending') failed.current = error;
  return { data, error: failed.current };
}

/** How the platform stands, for operators: each part in a word, with the way to more. */
export function HealthStrip() {
  const of_api = useQuery({
    queryKey: ['/readyz'],
    queryFn: ({ signal }) => send('GET', '/readyz', { signal }),
    refetchInterval: LOOK_MS,
    retry: false,
  });
  const looked = { refetchInterval: LOOK_MS };
  const of_gateways = useQuery({ ...reading('GET /api/gateways'), ...looked });
  const of_workers = useQuery({ ...reading('GET /api/workers/status'), ...looked });
  const of_providers = useQuery({ ...reading('GET /api/admin/payments/config'), ...looked });
  const api = useKnown(of_api);
  const gateways = useKnown(of_gateways);
  const workers = useKnown(of_workers);
  const providers = useKnown(of_providers);
  const retry = () => {
    for (const one of [of_api, of_gateways, of_workers, of_providers]) void one.refetch();
  };
  return (
    <Card withBorder component="section" mb="md" aria-labelledby="health">
      <Group justify="space-between">
        <Title order={2} size="h4" id="health">
          Health of the platform
        </Title>
        {[api, gateways, workers, providers].some(({ error }) => error !== null) && (
          <Button size="compact-sm" variant="default" onClick={retry}>
            Try again
          </Button>
        )}
      </Group>
      <Group component="ul" gap="md" mt="xs" mb={0} p={0} style={{ listStyle: 'none' }}>
        <Part
          name="API"
          to="/workers"
          known={api}
          failed="away"
          lightsOf={() => [{ name: 'API', word: 'ready', kind: 'good', to: '/workers' }]}
        />
        <Part
          name="Gateways"
          to="/gateways"
          known={gateways}
          lightsOf={({ gateways }) => [gatewayLight(gateways)]}
        />
        <Part
          name="Workers"
          to="/workers"
          known={workers}
          lightsOf={(status) => workerLights(status, serverNow())}
        />
        <Part name="Payment providers" to="/payments" known={providers} lightsOf={providerLights} />
      </Group>
    </Card>
  );
}

/** What is known of a part; what could not be read is said to be unknown, and not to be well. */
function Part<T>({
  name,
  to,
  known: { data, error },
  failed = 'unknown',
  lightsOf,
}: {
  name: string;
  to: string;
  known: Known<T>;
  /** The word for a part that gives no answer. */
  failed?: string;
  lightsOf: (data: T) => Light[];
}) {
  // What it said before is nothing to go by once it does not answer.
  if (data !== undefined && error === null)
    return lightsOf(data).map((light) => <One key={light.name} light={light} />);
  if (error === null)
    return (
      <li>
        <Skeleton w={140} h={24} role="status" aria-label={`Loading: ${name}`} />
      </li>
    );
  const is_forbidden = error instanceof Refusal && error.status === 403;
  const word = is_forbidden ? 'forbidden' : failed;
  const about = error instanceof Refusal ? error.message : 'This is a fault of the console.';
  return <One light={{ name, to, word, kind: is_forbidden ? 'neutral' : 'bad', about }} />;
}

function One({ light: { name, to, search, word, kind, about } }: { light: Light }) {
  return (
    <Group component="li" gap={6}>
      <AppLink to={to} {...(search && { search })}>
        {name}
      </AppLink>
      <State word={word} kind={kind} />
      {about && (
        <Text component="span" size="sm" c="dimmed" className="wrap">
          {about}
        </Text>
      )}
    </Group>
  );
}
