import { Alert, Button, Code, CopyButton, Group, Stack } from '@mantine/core';
import { Dialog } from '../parts/dialog';
import { Snippets } from './snippets';

export interface NewKey {
  name: string;
  key: string;
  is_gateway: boolean;
  model: string;
}

/** A key right after it was made: it is shown here and never again. */
export function ShownOnce({ made, onClose }: { made: NewKey | undefined; onClose: () => void }) {
  return (
    <Dialog
      opened={made !== undefined}
      onClose={onClose}
      title={`The key ${made?.name ?? ''}`}
      size="lg"
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
          {made.is_gateway && <Snippets value={made.key} model={made.model} />}
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
