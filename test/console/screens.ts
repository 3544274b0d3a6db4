/** Every screen that somebody who may do everything in the demo can go to, by its path. */
export const screens = [
  '/',
  '/tickets',
  '/tickets/rules',
  '/wallets',
  '/top-up',
  '/top-up/return',
  '/spend',
  '/payments',
  '/prices',
  '/exports',
  '/keys',
  '/chat',
  '/people',
  '/people?tab=teams',
  '/agents',
  '/events',
  '/settings',
  '/settings?tab=budgets',
  '/settings?tab=organization',
  '/settings?tab=top-ups',
  '/settings?tab=provider-keys',
  '/settings?tab=notices',
  '/settings?tab=audit',
  '/no-such-page',
] as const;

/** Those that only operators of the platform see something on. */
export const operator_screens = [
  '/setup',
  '/setup?step=2',
  '/setup?step=3',
  '/setup?step=4',
  '/setup?step=5',
  '/gateways',
  '/config',
  '/workers',
] as const;
