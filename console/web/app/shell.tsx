import {
  AppShell,
  Burger,
  Button,
  Center,
  Group,
  NavLink,
  Stack,
  Text,
  Title,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { isUnfit, Refusal, shownSince } from '../api/client';
import { act } from '../parts/act';
import { Failure, Loading } from '../parts/states';
import { UpgradeFirst } from '../parts/upgrade-first';
import { signOut } from '../session/leave';
import { type Me, meQuery } from '../session/me';
import { OpenTickets } from '../tickets/open-tickets';
import { Elsewhere, useOtherTabs } from './elsewhere';
import { useLive } from './live';
import { NotFresh, UnknownZone } from './not-fresh';
import { OrgSwitcher } from './org-switcher';
import { hearsOfTickets, screens, TICKETS } from './screens';
import { SignInAgain } from './sign-in-again';
import { UserMenu } from './user-menu';

/** The frame around all screens of somebody who is signed in. */
export function Shell() {
  const { data: me, error, refetch } = useQuery(meQuery);
  if (isUnfit(error)) return <UpgradeFirst refusal={error} />;
  const is_signed_out = error instanceof Refusal && error.status === 401;
  if (is_signed_out && me === undefined) return <GoToLogin />;
  // What was known stays on screen while the server is away for a moment.
  if (error && me === undefined)
    return (
      <Center mih="80vh" p="md" component="main">
        <Stack>
          <Title order={1} ta="center">
            Console
          </Title>
          <Failure error={error} />
          <Group justify="center">
            <Button variant="default" onClick={() => void refetch()}>
              Try again
            </Button>
            <Button variant="default" onClick={() => void act(signOut)}>
              Sign out
            </Button>
          </Group>
        </Stack>
      </Center>
    );
  if (me === undefined) return <Loading />;
  const now = { user_id: me.user?.user_id ?? '', org_id: me.acting_org ?? '' };
  const shown = shownSince(now);
  const is_elsewhere = shown.user_id !== now.user_id || shown.org_id !== now.org_id;
  return (
    <>
      <Frame me={me} is_elsewhere={is_elsewhere} key={shown.org_id} />
      {is_signed_out && <SignInAgain me={me} />}
      {is_elsewhere && !is_signed_out && <Elsewhere />}
    </>
  );
}

function GoToLogin() {
  const navigate = useNavigate();
  // The page that was wanted, once: the address changes while the sign-in is loaded.
  const [wanted] = useState(() => `${location.pathname}${location.search}`);
  useEffect(() => {
    const search = wanted === '/' ? {} : { next: wanted };
    void navigate({ to: '/login', search: search as never, replace: true });
  }, [navigate, wanted]);
  return <Loading />;
}

function Frame({ me, is_elsewhere }: { me: Me; is_elsewhere: boolean }) {
  useLive(is_elsewhere);
  useOtherTabs();
  const [is_open, { toggle, close }] = useDisclosure();
  const { pathname } = useLocation();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu closes with each new page.
  useEffect(close, [pathname]);
  return (
    <AppShell
      header={{ height: 56 }}
      navbar={{ width: 220, breakpoint: 'sm', collapsed: { mobile: !is_open } }}
      padding="md"
    >
      <AppShell.Header>
        <a href="#content" className="skip">
          Skip to the content
        </a>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="xs" wrap="nowrap" miw={0}>
            <Burger
              opened={is_open}
              onClick={toggle}
              hiddenFrom="sm"
              size="sm"
              aria-label={is_open ? 'Close the menu' : 'Open the menu'}
            />
            <Text fw={700} visibleFrom="xs">
              Console
            </Text>
            <OrgSwitcher me={me} />
          </Group>
          <UserMenu me={me} />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages">
        {screens
          .filter(({ nav }) => nav?.shown(me))
          .map(({ path, nav }) => (
            <NavLink
              key={path}
              label={nav?.label}
              active={path === '/' ? pathname === '/' : pathname.startsWith(path)}
              rightSection={path === TICKETS && hearsOfTickets(me) ? <OpenTickets me={me} /> : null}
              renderRoot={(props) => <Link to={path} {...props} />}
            />
          ))}
      </AppShell.Navbar>
      <AppShell.Main id="content" tabIndex={-1}>
        <NotFresh />
        <UnknownZone />
        <Outlet />
      </AppShell.Main>
    </AppShell>
  );
}
