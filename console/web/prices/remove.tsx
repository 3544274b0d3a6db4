import { Text, TextInput } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { refreshPrices } from '../api/refresh-prices';
import { FormModal } from '../parts/form-modal';
import type { Price } from './words';

/** Takes a planned version back, or deletes a price, whose model's calls are refused then. */
export function RemoveDialog({
  price,
  is_planned,
  onClose,
}: {
  /** Undefined: the dialog is closed. */
  price: Price | undefined;
  is_planned: boolean;
  onClose: () => void;
}) {
  const [typed, setTyped] = useState('');
  const id = price?.id;
  // biome-ignore lint/correctness/useExhaustiveDependencies: what was typed is of one price.
  useEffect(() => setTyped(''), [id]);
  if (price === undefined) return null;
  const submit = async (idempotency_key: string) => {
    const query = is_planned ? { effective_from: price.effective_from } : {};
    const names = { id: price.id };
    await call('DELETE /api/admin/prices/:id', { names, query, idempotency_key });
    void refreshPrices();
    notifications.show({
      message: is_planned ? 'The version was taken back.' : `${price.model} has no price now.`,
    });
    onClose();
  };
  return (
    <FormModal
      title={is_planned ? 'Take this version back' : `Delete the price of ${price.model}`}
      opened
      onClose={onClose}
      submit={submit}
      label={is_planned ? 'Take back' : 'Delete'}
      is_dangerous
      is_ready={is_planned || typed === price.model}
    >
      {is_planned ? (
        <Text>The price in force stays in force.</Text>
      ) : (
        <>
          <Text>
            New calls of this model are refused from now on. Calls under way keep the price that
            they were held at.
          </Text>
          <TextInput
            label={`Type ${price.model} to go on`}
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
            data-autofocus
          />
        </>
      )}
    </FormModal>
  );
}
