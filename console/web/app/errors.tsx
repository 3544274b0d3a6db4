import { Button, Center, Code, Stack, Text, Title } from '@mantine/core';
import { Component, type ReactNode } from 'react';
import { AppLink } from '../parts/link';

/** A screen that broke: says so, and offers what helps. */
export function Crash({ error }: { error: unknown }) {
  // A script of an earlier build that is not served any more, or that arrived in part.
  const is_old = /dynamically imported module|module script/i.test(String(error));
  return (
    <Center mih={300}>
      <Stack align="center" ta="center" role="alert">
        <Title order={1} size="h3">
          {is_old ? 'There is a newer console' : 'This page broke'}
        </Title>
        <Text c="dimmed">
          {is_old
            ? 'Reload to get it. Nothing that you have saved is lost.'
            : 'This is a fault of the console. Reloading often helps.'}
        </Text>
        {!is_old && <Code className="wrap">{String(error)}</Code>}
        <Button onClick={() => location.reload()}>Reload</Button>
      </Stack>
    </Center>
  );
}

/** Catches what breaks outside the screens, so that nobody sees a blank page. */
export class CrashBoundary extends Component<{ children: ReactNode }, { error?: unknown }> {
  override state: { error?: unknown } = {};

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    return 'error' in this.state ? <Crash error={this.state.error} /> : this.props.children;
  }
}

export function NotFound() {
  return (
    <Center mih={300} component="main">
      <Stack align="center" ta="center">
        <Title order={1} size="h3">
          There is no such page
        </Title>
        <AppLink to="/">Go home</AppLink>
      </Stack>
    </Center>
  );
}
