import { Button, Code, CopyButton, Group, Stack, Text } from '@mantine/core';
import { useRef, useState } from 'react';
import { call } from '../api/client';
import { newIntent } from '../api/intents';
import { addresses } from '../base/addresses';
import { act } from '../parts/act';

export interface FirstGateway {
  /** What it runs until it is given another configuration. */
  config: object;
  /** The variable that holds the provider's key; undefined: it takes none. */
  variable: string | undefined;
}

/** The lines that start a gateway with a file of its own. */
export function startLines(token: string, { config, variable }: FirstGateway): string {
  return [
    "cat > gateway.yaml <<'END'",
    JSON.stringify(config, null, 2),
    'END',
    ...(variable === undefined ? [] : [`export ${variable}=…`]),
    `CONTROL_PLANE_URL=${addresses.api_url} CONTROL_PLANE_TOKEN=${token} \\`,
    '  GATEWAY_CONFIG=gateway.yaml npm run start:gateway',
  ].join('\n');
}

/** How the first gateway is started: with a key that is made here, and shown once. */
export function GatewayStart({ gateway }: { gateway: FirstGateway | undefined }) {
  const [token, setToken] = useState<string>();
  const [is_busy, setBusy] = useState(false);
  const intent = useRef(newIntent());
  // Of the intent, like its key: a repeat under the same key asks for the same.
  const name = useRef(`gateway ${new Date().toISOString()}`);
  const make = () =>
    act(async () => {
      setBusy(true);
      try {
        const { key } = await call('POST /api/setup/gateway-keys', {
          body: { name: name.current, token_type: 'access' },
          idempotency_key: intent.current.key,
        });
        setToken(key);
      } finally {
        setBusy(false);
      }
    });
  if (token === undefined || gateway === undefined)
    return (
      <Group>
        <Text>No gateway is connected yet. Fill in the form, then start one with its own key.</Text>
        <Button
          variant="default"
          loading={is_busy}
          disabled={gateway === undefined}
          onClick={() => void make()}
        >
          Make its key
        </Button>
      </Group>
    );
  const text = startLines(token, gateway);
  return (
    <Stack gap="xs">
      <Text>
        Run this on the gateway's host, in a checkout of this repository
        {gateway.variable && ", with the provider's key in place of …"}. The gateway's own key is
        shown only once.
      </Text>
      <Code block tabIndex={0} aria-label="How to start the gateway">
        {text}
      </Code>
      <CopyButton value={text}>
        {({ copied, copy }) => (
          <Button size="xs" variant="default" onClick={copy} w="max-content">
            {copied ? 'Copied' : 'Copy'}
          </Button>
        )}
      </CopyButton>
    </Stack>
  );
}
