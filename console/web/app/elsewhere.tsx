import { Button, Text } from '@mantine/core';
import { useEffect } from 'react';
import { queries } from '../api/queries';
import { Dialog } from '../parts/dialog';
import { leave, openSessionChannel, type Told } from '../session/leave';

/**
 * Tells the other tabs of this browser that a page was begun here, and looks anew who is signed in
 * when another tab says so: all of them have one session. If one signs out, all leave.
 */
export function useOtherTabs(): void {
  useEffect(() => {
    const channel = openSessionChannel();
    channel.onmessage = ({ data }: MessageEvent<Told>) => {
      if (data === 'signed-out') leave();
      else void queries.invalidateQueries({ queryKey: ['/api/me'] });
    };
    channel.postMessage('begun' satisfies Told);
    return () => channel.close();
  }, []);
}

/** Over a page that shows another person or organization than this browser is signed in to now. */
export function Elsewhere() {
  return (
    <Dialog
      opened
      onClose={() => undefined}
      is_closable={false}
      title="You have signed in elsewhere"
    >
      <Text mb="md">
        Another tab of this browser has signed in as somebody else, or gone to another organization.
        Nothing that stands here can be sent any more: reload to go on there.
      </Text>
      <Button onClick={() => location.reload()} data-autofocus>
        Reload
      </Button>
    </Dialog>
  );
}
