import { row } from './row';

const has_org = true;

export const paymentRows = [
  row('get', '/api/payments/options', '/v1/payments/options', { has_org }),
  row('get', '/api/payments/settings', '/v1/payments/settings', { has_org }),
  row('put', '/api/payments/settings', '/v1/payments/settings', { has_org }),
  row('post', '/api/payments/create-checkout', '/v1/payments/create-checkout', {
    has_org,
    forced: { surface: 'console' },
  }),
  row('post', '/api/payments/confirm-checkout', '/v1/payments/confirm-checkout'),
  row('get', '/api/payments/sessions', '/v1/payments/sessions', { has_org }),
  row('get', '/api/payments/sessions/:id', '/v1/payments/sessions/:id'),
  row('post', '/api/payments/sessions/:id/cancel', '/v1/payments/sessions/:id/cancel'),
  row('get', '/api/payments/history', '/v1/payments/history', { has_org }),
  row('get', '/api/admin/payments', '/v1/admin/payments', { has_org }),
  row('get', '/api/admin/payments/config', '/v1/admin/payments/config'),
  row('put', '/api/admin/payments/config', '/v1/admin/payments/config'),
  row('get', '/api/admin/payments/webhooks', '/v1/admin/payments/webhooks'),
  row('post', '/api/admin/payments/refund', '/v1/admin/payments/refund'),
  row('post', '/api/admin/payments/:id/resolve', '/v1/admin/payments/:id/resolve'),
];
