import { Button, Center, Stack, Text, Title } from '@mantine/core';
import type { Refusal } from '../api/client';
import { version } from '../base/addresses';

const upgrades: Readonly<Record<string, string>> = {
  api: 'Upgrade the API first',
  console: 'Upgrade the console',
};

/** The one page before an API that is older than the console, or much newer. */
export function UpgradeFirst({ refusal: { message, details } }: { refusal: Refusal }) {
  return (
    <Center mih="80vh" p="md">
      <Stack align="center" ta="center" component="main">
        <Title order={1} size="h2">
          {upgrades[String(details.upgrade)] ?? 'The console and the API do not go together'}
        </Title>
        <Text>{message}</Text>
        <Text c="dimmed">
          The API goes before gateways, consoles and workers. This page is console {version}.
        </Text>
        <Button onClick={() => location.reload()}>Look again</Button>
      </Stack>
    </Center>
  );
}
