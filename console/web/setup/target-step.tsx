import { Button, Code, Group, Select, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { call } from '../api/client';
import { reading, refresh } from '../api/queries';
import { State } from '../parts/badge';
import { Loading } from '../parts/states';
import { GatewayStart } from './gateway-start';
import { type Step, StepForm } from './step-form';
import {
  freeId,
  idsOf,
  type Kind,
  originOf,
  type PlaceName,
  type Typed,
  targetOf,
  withTarget,
} from './target';

/** The third: where the gateways find the models. */
export function TargetStep({ onDone }: Step) {
  const { data } = useQuery({ ...reading('GET /api/gateway-config'), refetchInterval: 5_000 });
  const { data: listed } = useQuery(reading('GET /api/setup/provider-kinds'));
  const first = listed?.kinds[0];
  if (first === undefined || listed === undefined) return <Loading />;
  const running = data?.gateways.length ?? 0;
  const has_own_file = data?.config === null && running > 0;
  return (
    <Stack>
      {running > 0 && (
        <Group>
          <State
            word={running === 1 ? '1 gateway reports' : `${running} gateways report`}
            kind="good"
          />
          {(has_own_file || data?.config) && (
            <Button variant="default" onClick={onDone}>
              {has_own_file ? 'They have their own file: go on' : 'Go on with what they run'}
            </Button>
          )}
        </Group>
      )}
      <TargetForm
        kinds={listed.kinds}
        first={first}
        config={data?.config}
        has_own_file={has_own_file}
        is_running={data === undefined || running > 0}
        onDone={onDone}
      />
    </Stack>
  );
}

const variableOf = ({ kind, auth }: Kind): string => {
  if (auth.includes('key')) return auth.includes('none') ? '' : `${kind.toUpperCase()}_API_KEY`;
  return auth.includes('google') ? 'GOOGLE_APPLICATION_CREDENTIALS' : '';
};

/** What a target says at first of a kind. */
function startOf(kind: Kind): Typed {
  return {
    kind,
    shape: kind.wires[0]?.shape ?? 'openai',
    ...{ provider: '', place: {}, base_url: '', models: '' },
    variable: variableOf(kind),
  };
}

function TargetForm({
  kinds,
  first,
  config,
  has_own_file,
  is_running,
  onDone,
}: Step & {
  kinds: readonly Kind[];
  first: Kind;
  /** What the gateways are given; null if nothing is, undefined until it has been read. */
  config: Record<string, unknown> | null | undefined;
  has_own_file: boolean;
  is_running: boolean;
}) {
  const [typed, setTyped] = useState(() => startOf(first));
  const [replaced, setReplaced] = useState<string>();
  const change = (part: Partial<Typed>) => setTyped((now) => ({ ...now, ...part }));
  const { kind, shape, place } = typed;
  const wire = kind.wires.find((one) => one.shape === shape);
  const target = targetOf(typed);
  const alike = idsOf(config ?? null, kind);
  const free = freeId(config ?? null, kind);
  const id = replaced !== undefined && alike.includes(replaced) ? replaced : free;
  const submit = async (idempotency_key: string) => {
    if (target === undefined || config === undefined) return;
    const body = { config: withTarget(config, target, id), note: 'The first run' };
    await call('PUT /api/gateway-config', { body, idempotency_key });
    await refresh('/api/gateway');
  };
  const variable = typed.variable.trim();
  return (
    <>
      <StepForm
        label="Apply to the gateways"
        is_ready={target !== undefined && config !== undefined}
        {...{ submit, onDone }}
      >
        <Text>
          The provider's key stays in an environment variable on the gateway hosts: name it here,
          set it there.{has_own_file && " This replaces the gateways' own configuration file."}
        </Text>
        <Select
          label="Kind of provider"
          data={kinds.map((one) => one.kind)}
          value={kind.kind}
          onChange={(name) => {
            const chosen = kinds.find((one) => one.kind === name);
            if (chosen) setTyped({ ...startOf(chosen), models: typed.models });
          }}
          searchable
          allowDeselect={false}
        />
        {alike.length > 0 && (
          <Select
            label="The gateways have this kind already"
            data={[
              { value: free, label: `Add another one, ${free}` },
              ...alike.map((one) => ({ value: one, label: `Replace ${one}` })),
            ]}
            value={id}
            onChange={(value) => setReplaced(value ?? undefined)}
            allowDeselect={false}
          />
        )}
        {kind.wires.length > 1 && (
          <Select
            label="It speaks like"
            data={kind.wires.map((one) => ({ value: one.shape, label: makers[one.shape] }))}
            value={shape}
            onChange={(value) => change({ shape: value as Typed['shape'] })}
            allowDeselect={false}
          />
        )}
        {wire?.base_url === null && (
          <TextInput
            label="Its name in the price list"
            value={typed.provider}
            onChange={(event) => change({ provider: event.currentTarget.value })}
            required
          />
        )}
        {kind.needs.map((part) => (
          <TextInput
            key={part}
            label={placeWords[part]}
            value={place[part] ?? ''}
            onChange={(event) =>
              change({ place: { ...place, [part]: event.currentTarget.value.trim() } })
            }
            required
          />
        ))}
        <TextInput
          label="Address"
          description={wire?.base_url ? 'Empty: as the kind says.' : undefined}
          placeholder={wire?.base_url ?? undefined}
          value={typed.base_url}
          onChange={(event) => change({ base_url: event.currentTarget.value })}
          required={wire?.base_url === null}
        />
        {(kind.auth.includes('key') || kind.auth.includes('google')) && (
          <TextInput
            label={
              kind.auth.includes('key') ? 'Variable with its key' : "Variable with the key's file"
            }
            description={kind.auth.includes('none') ? 'Empty: it takes no key.' : undefined}
            value={typed.variable}
            onChange={(event) => change({ variable: event.currentTarget.value })}
          />
        )}
        <TextInput
          label="Models"
          description="Separated by commas; each has a price."
          value={typed.models}
          onChange={(event) => change({ models: event.currentTarget.value })}
          required
        />
      </StepForm>
      {is_running ? (
        <Allowed origin={originOf(typed)} variable={variable} />
      ) : (
        <GatewayStart
          gateway={
            target && {
              config: withTarget(null, target, kind.kind),
              variable: variable || undefined,
            }
          }
        />
      )}
    </>
  );
}

const makers = {
  openai: 'OpenAI',
  anthropic: 'Anthropic',
  gemini: 'Google',
  converse: 'Bedrock Converse',
};
const placeWords: Record<PlaceName, string> = {
  resource: 'Name of the resource',
  region: 'Region',
  project: 'Id of the project',
  location: 'Location',
  api_version: 'Version of its API',
  endpoint: 'Endpoint',
};

/** What gateways that run must allow, whose own file names another address. */
function Allowed({ origin, variable }: { origin: string | undefined; variable: string }) {
  if (origin === undefined) return null;
  const lines = [
    `GATEWAY_ORIGINS=${origin}`,
    ...(variable === '' ? [] : [`GATEWAY_SECRET_ENVS=${variable}@${origin}`]),
  ];
  return (
    <Stack gap="xs" maw={460}>
      <Text size="sm">
        A gateway accepts this only if its own file already names this address and variable, or if
        it was started with:
      </Text>
      <Code block tabIndex={0} aria-label="What the gateways must allow">
        {lines.join('\n')}
      </Code>
    </Stack>
  );
}
