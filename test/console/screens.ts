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
  '/no-such-page',
] as const;
