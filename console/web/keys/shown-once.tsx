import { Alert, Button, Code, CopyButton, Group, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { reading } from '../api/queries';
import { Dialog } from '../parts/dialog';
import { modelsFor } from './models';
import { Snippets } from './snippets';

export interface NewKey {
  name: string;
  key: string;
  is_gateway: boolean;
  /** What it may call; null: every model. */
  allowed_models: string[] | null;
}

/** A key right after it was made: it is shown here and never again. */
export function ShownOnce({ made, onClose }: { made: NewKey | undefined; onClose: () => void }) {
  const { data: prices, isPending } = useQuery({
    ...reading('GET /api/prices'),
    enabled: made?.is_gateway === true,
  });
  return (
    <Dialog
      opened={made !== undefined}
      onClose={onClose}
      title={`The key ${made?.name ?? ''}`}
      size="lg"
      is_closable={false}
    >
      {made && (
        <Stack>
          <Alert color="yellow" title="Copy it now">
            It is shown only here. If it is lost, rotate the key to get another value.
          </Alert>
          <Group wrap="nowrap" align="flex-start">
            <Code block className="wrap" flex={1} data-testid="key">
              {made.key}
            </Code>
            <CopyButton value={made.key}>
              {({ copied, copy }) => (
                <Button onClick={copy}>{copied ? 'Copied' : 'Copy the key'}</Button>
              )}
            </CopyButton>
          </Group>
          {made.is_gateway && !isPending && (
            <Snippets
              value={made.key}
              models={modelsFor(prices?.models ?? [], made.allowed_models)}
            />
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              I have copied it
            </Button>
          </Group>
        </Stack>
      )}
    </Dialog>
  );
}
