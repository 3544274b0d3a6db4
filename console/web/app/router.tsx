import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
} from '@tanstack/react-router';
import { Loading } from '../parts/states';
import { Crash, NotFound } from './errors';
import { screens } from './screens';
import { Shell } from './shell';

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound });

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  component: lazyRouteComponent(async () => ({
    default: (await import('../screens/login')).Login,
  })),
});

const shell = createRoute({ getParentRoute: () => root, id: 'shell', component: Shell });

const inside = screens.map(({ path, load }) =>
  createRoute({
    getParentRoute: () => shell,
    path,
    component: lazyRouteComponent(async () => ({ default: await load() })),
  }),
);

/** All pages of the console. */
export const router = createRouter({
  routeTree: root.addChildren([login, shell.addChildren(inside)]),
  defaultPreload: 'intent',
  defaultErrorComponent: Crash,
  defaultPendingComponent: Loading,
  defaultNotFoundComponent: NotFound,
  scrollRestoration: true,
});
