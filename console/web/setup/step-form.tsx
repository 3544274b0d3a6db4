import { Button, Group, Stack } from '@mantine/core';
import { type FormEvent, type ReactNode, useRef, useState } from 'react';
import { intentAfter, isReused, newIntent } from '../api/intents';
import { act } from '../parts/act';

export interface Step {
  onDone: () => void;
}

/** A form whose button does one thing; a second click does nothing more. */
export function StepForm({
  label,
  is_ready,
  submit,
  onDone,
  children,
}: Step & {
  label: string;
  is_ready: boolean;
  submit: (idempotency_key: string) => Promise<unknown>;
  children: ReactNode;
}) {
  const intent = useRef(newIntent());
  const [is_busy, setBusy] = useState(false);
  const run = async (event: FormEvent) => {
    event.preventDefault();
    if (!is_ready || is_busy) return;
    setBusy(true);
    await act(async () => {
      try {
        await submit(intent.current.key);
      } catch (refusal) {
        intent.current = isReused(refusal) ? newIntent() : intentAfter(intent.current, refusal);
        throw refusal;
      }
      intent.current = newIntent();
      onDone();
    });
    setBusy(false);
  };
  return (
    <form onSubmit={(event) => void run(event)}>
      <Stack maw={460} gap="sm">
        {children}
        <Group>
          <Button type="submit" loading={is_busy} disabled={!is_ready}>
            {label}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
