import { row } from './row';

const has_org = true;

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
];
