import { row } from './row';

const has_org = true;
/** A link of a page that keeps the same figures as a table. */
const csv = { has_org, answers: 'file', accept: 'text/csv', page: '/spend' } as const;

export const moneyRows = [
  row('get', '/api/wallets', '/v1/wallets', { has_org }),
  row('get', '/api/wallets/balance', '/v1/wallets/balance', { has_org }),
  row('post', '/api/wallets/credit', '/v1/wallets/credit', { has_org }),
  row('post', '/api/wallets/allocate', '/v1/wallets/allocate', { has_org }),
  row('post', '/api/wallets/reclaim', '/v1/wallets/reclaim', { has_org }),
  row('get', '/api/wallets/:id', '/v1/wallets/:id'),
  row('put', '/api/wallets/:id', '/v1/wallets/:id'),
  row('get', '/api/wallets/:id/transactions', '/v1/wallets/:id/transactions'),
  row('get', '/api/wallets/:id/reservations', '/v1/wallets/:id/reservations'),
  row('get', '/api/requests/:id', '/v1/requests/:id', { has_org }),
  row('get', '/api/wallet-settings/:id', '/v1/organizations/:id/wallet-settings'),
  row('get', '/api/spend', '/v1/spend', { has_org }),
  row('get', '/api/spend/top', '/v1/spend/top', { has_org }),
  row('get', '/api/spend/csv', '/v1/spend', csv),
  row('get', '/api/spend/top/csv', '/v1/spend/top', csv),
  row('get', '/api/prices', '/v1/model-pricing'),
  row('get', '/api/admin/prices', '/v1/admin/model-pricing'),
  row('post', '/api/admin/prices', '/v1/admin/model-pricing'),
  row('post', '/api/admin/prices/preview', '/v1/admin/model-pricing/preview'),
  row('put', '/api/admin/prices/:id', '/v1/admin/model-pricing/:id'),
  row('delete', '/api/admin/prices/:id', '/v1/admin/model-pricing/:id'),
  row('get', '/api/admin/price-plan', '/v1/admin/price-plan'),
  row('get', '/api/admin/price-check', '/v1/admin/price-check'),
  row('get', '/api/admin/price-imports', '/v1/admin/price-imports'),
  row('post', '/api/admin/price-imports', '/v1/admin/price-imports'),
  row('post', '/api/admin/price-imports/:id/undo', '/v1/admin/price-imports/:id/undo'),
  row('get', '/api/admin/exchange-rates', '/v1/admin/exchange-rates'),
  row('put', '/api/admin/exchange-rates', '/v1/admin/exchange-rates'),
];
