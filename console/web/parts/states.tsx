import { Alert, Button, Center, Group, Loader, Skeleton, Stack, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { Refusal } from '../api/client';
import { CopyId } from './copy-id';

/** While a page is read for the first time. */
export function Loading({ label = 'Loading' }: { label?: string }) {
  return (
    <Center mih={160} role="status" aria-label={label}>
      <Loader />
    </Center>
  );
}

/** While the rows of a table are read for the first time. */
export function LoadingRows() {
  return (
    <Stack gap="xs" role="status" aria-label="Loading" py="xs">
      {['a', 'b', 'c', 'd'].map((name) => (
        <Skeleton key={name} height={28} />
      ))}
    </Stack>
  );
}

/** A list that has nothing to show: says what would be here, and how it comes. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Stack align="center" gap="xs" py="xl" ta="center">
      <Title order={2} size="h4">
        {title}
      </Title>
      {children && <Text c="dimmed">{children}</Text>}
    </Stack>
  );
}

/** What went wrong, in the server's words, and how to go on. */
export function Failure({ error, retry }: { error: unknown; retry?: (() => void) | undefined }) {
  if (error instanceof Refusal && error.code === 'permission_denied')
    return (
      <Empty title="You may not see this">
        {error.message} Ask an owner of your organization for the right, or sign in as somebody
        else.
      </Empty>
    );
  if (error instanceof Refusal && error.code === 'org_required')
    return <Empty title="Choose an organization">Choose one in the menu at the top.</Empty>;
  const refusal = error instanceof Refusal ? error : undefined;
  return (
    <Alert color="red" title="That did not work" role="alert">
      <Text>{refusal?.message ?? 'This is a fault of the console. Reload the page.'}</Text>
      <Group mt="sm">
        {retry && (
          <Button size="xs" variant="default" onClick={retry}>
            Try again
          </Button>
        )}
        {refusal?.request_id && <CopyId value={refusal.request_id} />}
      </Group>
    </Alert>
  );
}
