import { Alert, Button, Group, Stack } from '@mantine/core';
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { Refusal } from '../api/client';
import { intentAfter, newIntent, refusedText } from '../api/intents';
import { Dialog } from './dialog';

/**
 * A dialog that changes something. Its Idempotency-Key is made when it opens and kept until it
 * closes, so that a double click or a second try does the thing once. A refusal is shown inside it,
 * at its field if the dialog has that, and nothing that was typed is lost. While it is sending it
 * does not close: what it does goes on, and its end would be told in the next dialog.
 */
export function FormModal({
  title,
  opened,
  onClose,
  submit,
  label,
  is_dangerous = false,
  is_ready = true,
  fields = [],
  children,
}: {
  title: string;
  opened: boolean;
  onClose: () => void;
  /** Does it; a Refusal that it throws is shown. */
  submit: (idempotency_key: string) => Promise<unknown>;
  /** The words of the button. */
  label: string;
  is_dangerous?: boolean;
  is_ready?: boolean;
  /** What the API calls the fields that say themselves why they are refused. */
  fields?: readonly string[];
  /** Or what makes them, of the words that such a field is refused with. */
  children?: ReactNode | ((refusedAt: (field: string) => string | undefined) => ReactNode);
}) {
  const intent = useRef(newIntent());
  const [is_busy, setBusy] = useState(false);
  const [error, setError] = useState<{ text: string; field?: string | undefined }>();
  useEffect(() => {
    if (!opened) return;
    intent.current = newIntent();
    setError(undefined);
  }, [opened]);
  const run = async (event: FormEvent) => {
    event.preventDefault();
    if (is_busy || !is_ready) return;
    setBusy(true);
    setError(undefined);
    try {
      await submit(intent.current.key);
    } catch (refusal) {
      const param = refusal instanceof Refusal ? refusal.param : null;
      setError({ text: refusedText(refusal), field: fields.find((field) => field === param) });
      intent.current = intentAfter(intent.current, refusal);
    } finally {
      setBusy(false);
    }
  };
  const refusedAt = (field: string) => (error?.field === field ? error.text : undefined);
  return (
    <Dialog opened={opened} onClose={onClose} title={title} is_closable={!is_busy}>
      <form onSubmit={(event) => void run(event)}>
        <Stack gap="sm">
          {typeof children === 'function' ? children(refusedAt) : children}
          {error && error.field === undefined && (
            <Alert color="red" role="alert">
              {error.text}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose} disabled={is_busy}>
              Cancel
            </Button>
            <Button
              type="submit"
              loading={is_busy}
              disabled={!is_ready}
              {...(is_dangerous ? { color: 'red.9' } : {})}
            >
              {label}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
