import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './app.css';
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { setNonce } from 'get-nonce';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { onRefusal } from './api/client';
import { queries } from './api/queries';
import { CrashBoundary } from './app/errors';
import { router } from './app/router';
import { schemeManager } from './app/scheme';
import { nonce } from './base/addresses';
import { noteSign } from './base/attended';
import { theme } from './theme';

// What locks the page's scrolling while a dialog is open writes a style of its own.
if (nonce) setNonce(nonce);

for (const sign of ['pointerdown', 'pointermove', 'keydown', 'wheel', 'touchstart'])
  window.addEventListener(sign, noteSign, { passive: true, capture: true });

// A session that has ended, or is another tab's by now, and an API that does not fit any more: who
// is signed in is asked anew, which shows the sign-in, that it was changed, or what to upgrade,
// once. What was typed stays in its form until then.
onRefusal(({ status, code }, path) => {
  const is_other = code === 'browser_not_allowed';
  if (status !== 401 && status !== 426 && !is_other) return;
  const me = { queryKey: ['/api/me'] };
  // A refusal of what that asks is its answer: asked anew for it, it would never have one.
  if (path === '/api/me' || (path === '/api/session' && queries.isFetching(me) > 0)) return;
  void queries.invalidateQueries(me);
});

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      colorSchemeManager={schemeManager}
      getStyleNonce={() => nonce ?? ''}
    >
      <Notifications position="bottom-right" />
      <CrashBoundary>
        <QueryClientProvider client={queries}>
          <RouterProvider router={router} />
        </QueryClientProvider>
      </CrashBoundary>
    </MantineProvider>
  </StrictMode>,
);
