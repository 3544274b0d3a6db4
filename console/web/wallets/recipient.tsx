import { Select, Text } from '@mantine/core';
import { useEffect, useState } from 'react';
import { call } from '../api/client';
import { type Found, MemberSelect } from '../fields/member-select';
import { TeamSelect } from '../fields/team-select';
import { FormModal } from '../parts/form-modal';
import type { WalletRow } from './words';

type Kind = 'team' | 'user';

/**
 * Finds whom money is given to, also one who has none yet and so stands in no list of wallets.
 * `onFound` hears the wallet: as it is, or the empty one that the money will make.
 */
export function Recipient({
  opened,
  org_id,
  bank,
  onClose,
  onFound,
}: {
  opened: boolean;
  org_id: string;
  /** The organization's wallet, which gives. */
  bank: WalletRow | undefined;
  onClose: () => void;
  onFound: (wallet: WalletRow) => void;
}) {
  const [kind, setKind] = useState<Kind>('team');
  const [team_id, setTeam] = useState<string | null>(null);
  const [member, setMember] = useState<Found | null>(null);
  useEffect(() => {
    if (!opened) return;
    setTeam(null);
    setMember(null);
  }, [opened]);
  const chosen = kind === 'team' ? team_id : (member?.id ?? null);
  const submit = async () => {
    if (chosen === null || bank === undefined) return;
    const query = kind === 'team' ? { team_id: chosen } : { user_id: chosen };
    const { wallets } = await call('GET /api/wallets', { query: { ...query, per_page: 1 } });
    const [wallet] = wallets;
    onFound(wallet ?? (await emptyOf({ kind, id: chosen, name: member?.name, org_id }, bank)));
  };
  return (
    <FormModal
      title="Give money to…"
      opened={opened}
      onClose={onClose}
      submit={submit}
      label="Go on"
      is_ready={chosen !== null && bank !== undefined}
    >
      <Select
        label="To"
        data={[
          { value: 'team', label: 'a team' },
          { value: 'user', label: 'a person' },
        ]}
        value={kind}
        onChange={(value) => setKind((value ?? 'team') as Kind)}
        allowDeselect={false}
      />
      {kind === 'team' ? (
        <TeamSelect
          label="Which team"
          placeholder="Search by name"
          none="Choose no team"
          value={team_id}
          onChange={setTeam}
        />
      ) : (
        <MemberSelect label="Which person" value={member} onChange={setMember} />
      )}
      <Text size="sm" c="dimmed">
        Calls are then paid by that wallet first, before the organization's.
      </Text>
    </FormModal>
  );
}

/** The wallet of a team or person who has none, as the first money finds it. */
async function emptyOf(
  { kind, id, name, org_id }: { kind: Kind; id: string; name: string | undefined; org_id: string },
  { currency }: WalletRow,
): Promise<WalletRow> {
  const owner_name =
    kind === 'user'
      ? (name ?? '')
      : (
          await call('GET /api/organizations/:id/teams/:team_id', {
            names: { id: org_id, team_id: id },
          })
        ).name;
  return {
    wallet_id: '',
    owner_type: kind,
    owner_org_id: org_id,
    owner_team_id: kind === 'team' ? id : null,
    owner_user_id: kind === 'user' ? id : null,
    owner_name,
    balance: 0,
    reserved: 0,
    low_balance_threshold: null,
    currency,
  };
}
