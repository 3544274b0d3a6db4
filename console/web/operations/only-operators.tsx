import type { ReactNode } from 'react';
import { Page } from '../parts/page';
import { Empty } from '../parts/states';
import { may, useMe } from '../session/me';

/** A page for operators of the platform; anybody else is told so, and nothing is asked. */
export function OnlyOperators({ title, children }: { title: string; children: ReactNode }) {
  if (may(useMe(), 'platform:admin')) return children;
  return (
    <Page title={title}>
      <Empty title="You may not see this">
        It is for operators of the platform. Sign in with a platform admin's key.
      </Empty>
    </Page>
  );
}
