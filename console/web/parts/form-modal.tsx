import { Alert, Button, Group, Stack } from '@mantine/core';
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { intentKey, isOther, refusedText } from '../api/queries';
import { Dialog } from './dialog';

/**
 * A dialog that changes something. Its Idempotency-Key is made when it opens and kept until it
 * closes, so that a double click or a second try does the thing once. A refusal is shown inside it,
 * and nothing that was typed is lost.
 */
export function FormModal({
  title,
  opened,
  onClose,
  submit,
  label,
  is_dangerous = false,
  is_ready = true,
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
  children?: ReactNode;
}) {
  const key = useRef('');
  const [is_busy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  useEffect(() => {
    if (!opened) return;
    key.current = intentKey();
    setError(undefined);
  }, [opened]);
  const run = async (event: FormEvent) => {
    event.preventDefault();
    if (is_busy || !is_ready) return;
    setBusy(true);
    setError(undefined);
    try {
      await submit(key.current);
    } catch (refusal) {
      setError(refusedText(refusal));
      if (isOther(refusal)) key.current = intentKey();
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog opened={opened} onClose={onClose} title={title}>
      <form onSubmit={(event) => void run(event)}>
        <Stack gap="sm">
          {children}
          {error && (
            <Alert color="red" role="alert">
              {error}
            </Alert>
          )}
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
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
