import type { ComponentType } from 'react';
import { decidesTickets, type Me, may } from '../session/me';

// One row a screen: where it is, how it is loaded, and for whom it stands in the navigation. Each
// screen is a file of its own in ../screens, loaded when somebody goes there.

export interface Screen {
  /** `/wallets/$id` */
  path: string;
  load: () => Promise<ComponentType>;
  nav?: { label: string; shown: (me: Me) => boolean };
}

const everybody = () => true;
/** What concerns an organization is shown to an operator once one is chosen. */
const inOrg = (me: Me) => me.acting_org !== null;

const operates = (me: Me) => may(me, 'platform:admin');

export const screens: readonly Screen[] = [
  {
    path: '/',
    load: async () => (await import('../screens/home')).Home,
    nav: { label: 'Home', shown: everybody },
  },
  {
    path: '/tickets',
    load: async () => (await import('../screens/tickets')).Tickets,
    nav: { label: 'Tickets', shown: inOrg },
  },
  {
    path: '/tickets/rules',
    load: async () => (await import('../screens/approval-rules')).ApprovalRules,
  },
  { path: '/tickets/$id', load: async () => (await import('../screens/ticket')).Ticket },
  {
    path: '/wallets',
    load: async () => (await import('../screens/wallets')).Wallets,
    nav: { label: 'Wallets', shown: inOrg },
  },
  { path: '/wallets/$id', load: async () => (await import('../screens/wallet')).Wallet },
  {
    path: '/top-up',
    load: async () => (await import('../screens/top-up')).TopUp,
    nav: { label: 'Top up', shown: inOrg },
  },
  {
    path: '/top-up/return',
    load: async () => (await import('../screens/top-up-return')).TopUpReturn,
  },
  {
    path: '/spend',
    load: async () => (await import('../screens/spend')).Spend,
    nav: { label: 'Spend', shown: inOrg },
  },
  {
    path: '/payments',
    load: async () => (await import('../screens/payments')).Payments,
    nav: { label: 'Payments', shown: (me) => inOrg(me) || me.is_operator },
  },
  { path: '/payments/$id', load: async () => (await import('../screens/payment')).Payment },
  {
    path: '/prices',
    load: async () => (await import('../screens/prices')).Prices,
    nav: { label: 'Prices', shown: everybody },
  },
  {
    path: '/exports',
    load: async () => (await import('../screens/exports')).Exports,
    nav: { label: 'Exports', shown: (me) => inOrg(me) && may(me, 'org:billing') },
  },
  { path: '/exports/$id', load: async () => (await import('../screens/export')).Export },
  { path: '/requests/$id', load: async () => (await import('../screens/request')).Request },
  {
    path: '/keys',
    load: async () => (await import('../screens/keys')).Keys,
    nav: {
      label: 'Keys',
      shown: (me) => inOrg(me) && (me.user !== null || may(me, 'tokens:write')),
    },
  },
  {
    path: '/chat',
    load: async () => (await import('../screens/chat')).Chat,
    nav: { label: 'Chat', shown: (me) => me.user !== null },
  },
  {
    path: '/people',
    load: async () => (await import('../screens/people')).People,
    nav: { label: 'People', shown: inOrg },
  },
  {
    path: '/agents',
    load: async () => (await import('../screens/agents')).Agents,
    nav: { label: 'Agents', shown: (me) => inOrg(me) && may(me, 'agents:read') },
  },
  { path: '/agents/$id', load: async () => (await import('../screens/agent')).Agent },
  {
    path: '/events',
    load: async () => (await import('../screens/operations/events')).Events,
    nav: {
      label: 'Events',
      shown: (me) => inOrg(me) && (may(me, 'events:read') || may(me, 'org:billing')),
    },
  },
  {
    path: '/organizations',
    load: async () => (await import('../screens/operations/organizations')).Organizations,
    nav: { label: 'Organizations', shown: operates },
  },
  {
    path: '/setup',
    load: async () => (await import('../screens/operations/setup')).Setup,
    nav: { label: 'Set up', shown: operates },
  },
  {
    path: '/gateways',
    load: async () => (await import('../screens/operations/gateways')).Gateways,
    nav: { label: 'Gateways', shown: operates },
  },
  {
    path: '/config',
    load: async () => (await import('../screens/operations/config')).Config,
    nav: { label: 'Configuration', shown: operates },
  },
  {
    path: '/workers',
    load: async () => (await import('../screens/operations/workers')).Workers,
    nav: { label: 'Workers', shown: operates },
  },
  {
    path: '/settings',
    load: async () => (await import('../screens/settings')).Settings,
    nav: { label: 'Settings', shown: everybody },
  },
];

/** Where the badge of open tickets stands. */
export const TICKETS = '/tickets';

/** True for whoever is told how many tickets wait. */
export const hearsOfTickets = (me: Me) => inOrg(me) && (decidesTickets(me) || me.user !== null);
