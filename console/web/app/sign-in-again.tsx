import { Text } from '@mantine/core';
import { queries } from '../api/queries';
import { Dialog } from '../parts/dialog';
import { SignInForms } from '../session/sign-in-forms';

/**
 * Over the page whose session has ended: what was typed stays, and goes on after signing in. The
 * identity provider is another page, so that way begins the page anew.
 */
export function SignInAgain() {
  return (
    <Dialog opened onClose={() => undefined} is_closable={false} title="You are signed out">
      <Text mb="md">
        Your session has ended. Sign in with a key and what you have typed stays as it is.
      </Text>
      <SignInForms
        next={`${location.pathname}${location.search}`}
        onDone={() => void queries.invalidateQueries()}
      />
    </Dialog>
  );
}
