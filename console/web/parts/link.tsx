import { Anchor, Button, type ButtonProps } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

interface To {
  /** `/wallets/wal_1` */
  to: string;
  search?: Record<string, string | undefined>;
  children: ReactNode;
}

/** A link to another page of the console. */
export function AppLink({ to, search, children }: To) {
  return (
    <Anchor
      inherit
      renderRoot={(props) => <Link to={to} search={(search ?? {}) as never} {...props} />}
    >
      {children}
    </Anchor>
  );
}

/** The same, as a button. */
export function LinkButton({ to, search, children, ...style }: To & ButtonProps) {
  return (
    <Button
      {...style}
      renderRoot={(props) => <Link to={to} search={(search ?? {}) as never} {...props} />}
    >
      {children}
    </Button>
  );
}
