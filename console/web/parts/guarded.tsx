import type { ReactNode } from 'react';
import { type Me, may, useMe } from '../session/me';
import { Page } from './page';
import { Empty } from './states';

type Right = Me['permissions'][number];

/** A page for whoever has one of these rights; others are told so, and nothing is asked. */
export function Guarded({
  title,
  rights,
  children,
}: {
  title: string;
  rights: readonly Right[];
  children: ReactNode;
}) {
  const me = useMe();
  if (rights.some((right) => may(me, right))) return children;
  return (
    <Page title={title}>
      <NotSeen rights={rights} />
    </Page>
  );
}

/** What whoever lacks all of these rights reads instead. */
export function NotSeen({ rights }: { rights: readonly Right[] }) {
  return (
    <Empty title="You may not see this">
      It needs the right {rights.join(' or ')}. Ask an owner of your organization for it, or sign in
      as somebody else.
    </Empty>
  );
}
