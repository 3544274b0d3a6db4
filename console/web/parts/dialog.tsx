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
  useFocusBack(opened);
  return (
    <Modal.Root
      opened={opened}
      onClose={onClose}
      size={size}
      closeOnClickOutside={false}
      closeOnEscape={is_closable && is_top}
      returnFocus={false}
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

/**
 * Focus goes back to where it was. Mantine's own way forgets that of a dialog which was opened as
 * it was mounted, or is taken away as it closes.
 */
function useFocusBack(opened: boolean): void {
  useEffect(() => {
    if (!opened) return;
    const before = document.activeElement;
    // A menu is gone by then, and its button is not.
    const menu = before?.closest('[role=menu]')?.getAttribute('aria-labelledby');
    const back = menu ? document.getElementById(menu) : before;
    return () => {
      if (back instanceof HTMLElement) back.focus({ preventScroll: true });
    };
  }, [opened]);
}

function restack(next: readonly string[]): void {
  stack = next;
  for (const listener of listeners) listener();
}

function hear(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
