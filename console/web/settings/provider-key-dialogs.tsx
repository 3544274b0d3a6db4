import { PasswordInput, Select, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { type Answer, call } from '../api/client';
import { refusedText } from '../api/intents';
import { reading, refresh } from '../api/queries';
import { typedNumber } from '../base/typed';
import { AmountInput } from '../fields/amount-input';
import { FormModal } from '../parts/form-modal';
import { useMe } from '../session/me';

export type ProviderKey = Answer<'GET /api/provider-keys'>['provider_keys'][number];
type OwnKeys = ProviderKey['own_keys'];

const LIST = '/api/provider-keys';
const refused: { value: OwnKeys; label: string }[] = [
  { value: 'only', label: 'fails' },
  { value: 'first', label: "is served by the platform's key" },
];
// What a key may be; the API says the same.
const isKey = (typed: string) => /^[\x21-\x7e]{8,500}$/.test(typed.trim());

const isNoneOrNumber = (typed: number | string) =>
  String(typed).trim() === '' || typedNumber(typed) !== undefined;

/** The key itself, as its provider shows it. It is not shown again, here or anywhere. */
function KeyInput({ value, onChange }: { value: string; onChange: (typed: string) => void }) {
  return (
    <PasswordInput
      label="Key"
      description="As the provider shows it. It is sealed, and never shown again."
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
      visibilityToggleButtonProps={{ 'aria-label': 'Show what was typed' }}
      autoComplete="off"
      maxLength={520}
      required
    />
  );
}

/** What is charged, and what follows where the provider refuses the key. */
function TermsInputs({
  factor,
  setFactor,
  own_keys,
  setOwnKeys,
}: {
  factor: number | string;
  setFactor: (typed: string) => void;
  own_keys: OwnKeys;
  setOwnKeys: (chosen: OwnKeys) => void;
}) {
  const { acting_org } = useMe();
  const { data: settings } = useQuery({
    ...reading('GET /api/wallet-settings/:id', { names: { id: acting_org ?? '' } }),
    enabled: acting_org !== null,
  });
  const least = settings === undefined ? '' : `, ${settings.own_key_factor_min} at least`;
  return (
    <>
      <AmountInput
        label="Factor on prices"
        description={`What a call by this key costs of the list price${least}. 0: the fee per request alone.`}
        value={factor}
        onChange={setFactor}
        digits={6}
      />
      <Select
        label="A call whose key is refused"
        data={refused}
        value={own_keys}
        onChange={(value) => setOwnKeys((value ?? 'only') as OwnKeys)}
        allowDeselect={false}
      />
    </>
  );
}

/** Brings a key of a provider. */
export function AddProviderKey({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [provider, setProvider] = useState<string | null>(null);
  const [key, setKey] = useState('');
  const [factor, setFactor] = useState<number | string>('');
  const [own_keys, setOwnKeys] = useState<OwnKeys>('only');
  const { data: prices, error } = useQuery({ ...reading('GET /api/prices'), enabled: opened });
  useEffect(() => {
    // Nothing of a key stays behind in the page.
    setKey('');
    if (!opened) return;
    setProvider(null);
    setFactor('');
    setOwnKeys('only');
  }, [opened]);
  const providers = [...new Set(prices?.models.map((price) => price.provider))].sort();
  const submit = async () => {
    if (provider === null) return;
    const price_factor = typedNumber(factor);
    await call('POST /api/provider-keys', {
      body: {
        provider,
        key: key.trim(),
        own_keys,
        ...(price_factor === undefined ? {} : { price_factor }),
      },
    });
    void refresh(LIST);
    onClose();
  };
  return (
    <FormModal
      title="A key of a provider"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Keep it"
      is_ready={provider !== null && isKey(key) && isNoneOrNumber(factor)}
    >
      <Select
        label="Provider"
        description="All calls to it are served by this key."
        data={providers}
        value={provider}
        onChange={setProvider}
        error={error && prices === undefined ? refusedText(error) : undefined}
        searchable
        data-autofocus
        required
      />
      <KeyInput value={key} onChange={setKey} />
      <TermsInputs {...{ factor, setFactor, own_keys, setOwnKeys }} />
    </FormModal>
  );
}

interface Of {
  /** The key that it is about; undefined: the dialog is closed. */
  of: ProviderKey | undefined;
  onClose: () => void;
}

/** Puts another value in the place of a key's. */
export function RotateProviderKey({ of, onClose }: Of) {
  const [key, setKey] = useState('');
  // biome-ignore lint/correctness/useExhaustiveDependencies: it is emptied as the dialog opens or closes.
  useEffect(() => setKey(''), [of]);
  const submit = async () => {
    if (of === undefined) return;
    const names = { id: of.id };
    await call('POST /api/provider-keys/:id/rotate', { names, body: { key: key.trim() } });
    void refresh(LIST);
    notifications.show({ message: `Calls to ${of.provider} use the new key from now on.` });
    onClose();
  };
  return (
    <FormModal
      title={`Rotate the key of ${of?.provider ?? ''}`}
      opened={of !== undefined}
      onClose={onClose}
      submit={submit}
      label="Rotate"
      is_ready={isKey(key)}
    >
      <Text>Calls that begin from now on use the new value. The old one is forgotten.</Text>
      <KeyInput value={key} onChange={setKey} />
    </FormModal>
  );
}

/** Changes what calls by a key cost, and what follows where it is refused. */
export function ChangeProviderKey({ of, onClose }: Of) {
  const [factor, setFactor] = useState<number | string>('');
  const [own_keys, setOwnKeys] = useState<OwnKeys>('only');
  useEffect(() => {
    setFactor(of?.price_factor ?? '');
    setOwnKeys(of?.own_keys ?? 'only');
  }, [of]);
  const price_factor = typedNumber(factor);
  const submit = async () => {
    if (of === undefined || price_factor === undefined) return;
    const body = { price_factor, own_keys };
    await call('PUT /api/provider-keys/:id', { names: { id: of.id }, body });
    void refresh(LIST);
    onClose();
  };
  return (
    <FormModal
      title={`The key of ${of?.provider ?? ''}`}
      opened={of !== undefined}
      onClose={onClose}
      submit={submit}
      label="Change"
      is_ready={price_factor !== undefined}
    >
      <TermsInputs {...{ factor, setFactor, own_keys, setOwnKeys }} />
    </FormModal>
  );
}

/** Ends a key. */
export function RevokeProviderKey({ of, onClose }: Of) {
  const submit = async () => {
    if (of === undefined) return;
    await call('DELETE /api/provider-keys/:id', { names: { id: of.id } });
    void refresh(LIST);
    onClose();
  };
  return (
    <FormModal
      title={`Revoke the key of ${of?.provider ?? ''}`}
      opened={of !== undefined}
      onClose={onClose}
      submit={submit}
      label="Revoke"
      is_dangerous
    >
      <Text>
        Calls that begin from now on are served by the key of the platform, at its prices. What this
        key has stored at the provider is found no more.
      </Text>
    </FormModal>
  );
}
