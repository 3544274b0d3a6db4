import { row } from './row';

// What the chat's page may do with money: top up the organization's wallet and nothing else,
// whatever the browser sends.
const forced = {
  surface: 'chat',
  target_wallet_owner_type: 'organization',
  target_wallet_owner_id: null,
} as const;

export const chatRows = [
  row('get', '/api/chat/balance', '/v1/wallets/balance'),
  row('get', '/api/chat/payments/options', '/v1/payments/options'),
  row('post', '/api/chat/payments/create-checkout', '/v1/payments/create-checkout', { forced }),
  row('post', '/api/chat/payments/confirm-checkout', '/v1/payments/confirm-checkout'),
  row('get', '/api/chat/payments/sessions/:id', '/v1/payments/sessions/:id'),
  row('get', '/api/chat/tickets', '/v1/cost-tickets', { forced: { mine: 'true' } }),
];
