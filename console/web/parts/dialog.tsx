import { Group, Modal, type ModalProps } from '@mantine/core';
import type { ReactNode } from 'react';

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
  return (
    <Modal.Root
      opened={opened}
      onClose={onClose}
      size={size}
      closeOnClickOutside={false}
      closeOnEscape={is_closable}
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
