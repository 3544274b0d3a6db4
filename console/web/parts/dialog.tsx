import { Group, Modal, type ModalProps } from '@mantine/core';
import { type ReactNode, useEffect, useId, useSyncExternalStore } from 'react';

/** The open dialogs, the latest last: Escape is for that one alone. */
let stack: readonly string[] = [];
const listeners = new Set<() => void>();

/** A dialog over the page. Its head is no landmark: the page has one already. */
export function Dialog({
  title,
  opened,
  onClose,
  size = 'md',
  is_closable = true,
  children,
}: {
  title: string;
  opened: boolean;
  onClose: () => void;
  size?: ModalProps['size'];
  /** False: only what stands inside it ends it. */
  is_closable?: boolean;
  children: ReactNode;
}) {
  const is_top = useIsTop(opened);
  return (
    <Modal.Root
      opened={opened}
      onClose={onClose}
      size={size}
      closeOnClickOutside={false}
      closeOnEscape={is_closable && is_top}
    >
      <Modal.Overlay />
      <Modal.Content>
        <Modal.Body pt="md">
          <Group justify="space-between" align="flex-start" wrap="nowrap" mb="md">
            <Modal.Title className="wrap" fw={700}>
              {title}
            </Modal.Title>
            {is_closable && <Modal.CloseButton aria-label="Close" />}
          </Group>
          {children}
        </Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}

/** True for the dialog that was opened last. */
function useIsTop(opened: boolean): boolean {
  const id = useId();
  useEffect(() => {
    if (!opened) return;
    restack([...stack, id]);
    return () => restack(stack.filter((other) => other !== id));
  }, [opened, id]);
  return useSyncExternalStore(hear, () => stack.at(-1) === id);
}

function restack(next: readonly string[]): void {
  stack = next;
  for (const listener of listeners) listener();
}

function hear(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
