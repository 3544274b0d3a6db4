import { Alert } from '@mantine/core';
import { useEffect, useState } from 'react';
import { send } from '../api/client';
import { forgetUnended, isUnended } from './leave';

/** Says that this tab's sign-out has not ended the session, and asks the server for it again. */
export function Unended() {
  const [is_unended] = useState(isUnended);
  useEffect(() => {
    if (!is_unended) return;
    // Once: whoever signs in here next is not signed out by it.
    forgetUnended();
    // If no answer came, the browser has the session's cookie yet.
    void send('DELETE', '/api/session').catch(() => undefined);
  }, [is_unended]);
  if (!is_unended) return null;
  return (
    <Alert color="yellow" role="alert">
      You are signed out here. The server did not end it, so the session itself ends within an hour
      without use.
    </Alert>
  );
}
