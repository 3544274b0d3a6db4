import { Button, Group, Table, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Fragment, type ReactNode, useDeferredValue, useState } from 'react';
import type { Query } from '../api/client';
import { reading } from '../api/queries';
import { nextOf } from '../api/whole';
import { State } from '../parts/badge';
import { AppLink } from '../parts/link';
import { Money } from '../parts/money';
import { Failure, LoadingRows } from '../parts/states';
import { kinds, standing, type WalletRow } from './words';

// The organization, its teams, and their people. Each level is read from the server when it is
// opened, a page at a time, so that ten thousand wallets are as quick as ten.

/** Rows of a page, of any level. */
const PAGE = 25;
const TITLES = ['Owner', 'Kind', 'Can be spent', 'Held', 'State'] as const;
/** Stands among the opened teams for the people of all. */
const EVERYBODY = 'everybody';

interface Shown {
  /** Wallets of other people and teams are shown to whoever bills; others see their own. */
  sees_all: boolean;
  threshold: number | undefined;
  /** What can be done with a wallet; undefined: nothing, by this viewer. */
  actions: ((wallet: WalletRow) => ReactNode) | undefined;
  /** The teams whose people are shown. */
  opened: ReadonlySet<string>;
  turn: (team_id: string) => void;
}

/** All wallets of an organization, as a tree. */
export function WalletTree({ bank, ...shown }: Shown & { bank: WalletRow | undefined }) {
  const { actions, opened, turn } = shown;
  const is_open = opened.has(EVERYBODY);
  return (
    <Table.ScrollContainer minWidth={0} type="native" className="table">
      <Table highlightOnHover verticalSpacing="xs" aria-label="Wallets">
        <Table.Thead>
          <Table.Tr>
            {TITLES.map((title, place) => (
              <Table.Th key={title} ta={place === 2 || place === 3 ? 'right' : 'left'}>
                {title}
              </Table.Th>
            ))}
            {actions && (
              <Table.Th>
                <span className="unseen">Actions</span>
              </Table.Th>
            )}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {bank && <Row wallet={bank} level={0} {...shown} />}
          <Level asked={{ owner_type: 'team' }} level={1} {...shown} />
          <Table.Tr>
            <Table.Td colSpan={6} className="tree-1">
              <Opener is_open={is_open} name="everybody" onTurn={() => turn(EVERYBODY)} />
              <Text size="sm" component="span">
                All people, whatever their teams
              </Text>
            </Table.Td>
          </Table.Tr>
          {is_open && <Level asked={{ owner_type: 'user' }} level={2} {...shown} />}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

/** A page of one level, and those after it as far as somebody asked for them. */
function Level({
  asked,
  cursor = 'first',
  level,
  ...shown
}: Shown & { asked: Query<'GET /api/wallets'>; cursor?: string; level: number }) {
  const [goes_on, setGoesOn] = useState(false);
  const {
    data: read,
    error,
    refetch,
  } = useQuery({
    ...reading('GET /api/wallets', { query: { ...asked, cursor, per_page: PAGE } }),
    refetchInterval: 30_000,
  });
  // Rows are made in slices, between which the page answers its reader.
  const data = useDeferredValue(read);
  if (error && data === undefined)
    return (
      <Whole level={level}>
        <Failure error={error} retry={() => void refetch()} />
      </Whole>
    );
  if (data === undefined)
    return (
      <Whole level={level}>
        <LoadingRows />
      </Whole>
    );
  const next = nextOf(data);
  const words = wordsOf({ is_empty: data.wallets.length === 0, level, sees_all: shown.sees_all });
  return (
    <>
      {data.wallets.map((wallet) => (
        <Branch key={wallet.wallet_id} wallet={wallet} level={level} {...shown} />
      ))}
      {words !== undefined && (
        <Whole level={level}>
          <Text c="dimmed" size="sm" component="span">
            {words}
          </Text>
        </Whole>
      )}
      {next !== null &&
        (goes_on ? (
          <Level asked={asked} cursor={next} level={level} {...shown} />
        ) : (
          <Whole level={level}>
            <Button size="compact-sm" variant="default" onClick={() => setGoesOn(true)}>
              Show {PAGE} more
            </Button>
          </Whole>
        ))}
    </>
  );
}

/** What is said below the rows of a level, whose other rows the viewer may not see. */
function wordsOf({
  is_empty,
  level,
  sees_all,
}: {
  is_empty: boolean;
  level: number;
  sees_all: boolean;
}): string | undefined {
  if (level > 1 && !sees_all)
    return 'Wallets of other people are shown to whoever bills. What is left of a team’s gifts to its members stands on the page of its wallet, for its admins.';
  if (!is_empty) return undefined;
  const whose = sees_all ? 'No team has' : 'No team of yours has';
  return level === 1
    ? `${whose} a wallet. A team has one once it is given money; until then the organization pays.`
    : 'Nobody here has a wallet of their own: the team pays, else the organization.';
}

/** A wallet; of a team, with its people below it once it is opened. */
function Branch({ wallet, level, ...shown }: Shown & { wallet: WalletRow; level: number }) {
  const team_id = wallet.owner_team_id;
  const is_open = team_id !== null && shown.opened.has(team_id);
  return (
    <Fragment>
      <Row
        {...{ wallet, level, ...shown }}
        opener={
          team_id !== null && (
            <Opener is_open={is_open} name={wallet.owner_name} onTurn={() => shown.turn(team_id)} />
          )
        }
      />
      {is_open && <Level asked={{ member_of: team_id }} level={level + 1} {...shown} />}
    </Fragment>
  );
}

function Row({
  wallet,
  level,
  opener,
  threshold,
  actions,
}: Shown & { wallet: WalletRow; level: number; opener?: ReactNode }) {
  const { wallet_id, owner_name, owner_type, balance, reserved, currency } = wallet;
  return (
    <Table.Tr>
      <Table.Td data-title="Owner" className={`tree-${level}`} fw={level === 0 ? 700 : 400}>
        <Group gap={4} wrap="nowrap">
          {opener}
          <AppLink to={`/wallets/${wallet_id}`}>{owner_name}</AppLink>
        </Group>
      </Table.Td>
      <Table.Td data-title="Kind">{kinds[owner_type]}</Table.Td>
      <Table.Td data-title="Can be spent" ta="right">
        <Money amount={balance} currency={currency} />
      </Table.Td>
      <Table.Td data-title="Held" ta="right">
        <Money amount={reserved} currency={currency} />
      </Table.Td>
      <Table.Td data-title="State">
        <State {...standing(wallet, threshold)} />
      </Table.Td>
      {actions && (
        <Table.Td>
          <Group gap="xs" justify="flex-end" wrap="nowrap">
            {actions(wallet)}
          </Group>
        </Table.Td>
      )}
    </Table.Tr>
  );
}

function Opener({ is_open, name, onTurn }: { is_open: boolean; name: string; onTurn: () => void }) {
  return (
    <Button
      size="compact-sm"
      variant="subtle"
      className="opener"
      aria-expanded={is_open}
      aria-label={`People of ${name}`}
      onClick={onTurn}
    >
      {is_open ? '▾' : '▸'}
    </Button>
  );
}

function Whole({ level, children }: { level: number; children: ReactNode }) {
  return (
    <Table.Tr>
      <Table.Td colSpan={6} className={`tree-${level}`}>
        {children}
      </Table.Td>
    </Table.Tr>
  );
}
