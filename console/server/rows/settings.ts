import { row } from './row';

const has_org = true;

export const settingRows = [
  row('get', '/api/sessions', '/v1/sessions', { has_org }),
  row('delete', '/api/sessions', '/v1/sessions', { has_org }),
  row('delete', '/api/sessions/:id', '/v1/sessions/:id', { has_org }),
  row('get', '/api/audit-log', '/v1/audit-log', { has_org }),
  row('put', '/api/wallet-settings/:id', '/v1/admin/organizations/:id/wallet-settings'),
  row('get', '/api/budgets', '/v1/budgets', { has_org }),
  row('post', '/api/budgets', '/v1/budgets', { has_org }),
  row('put', '/api/budgets/:id', '/v1/budgets/:id'),
  row('delete', '/api/budgets/:id', '/v1/budgets/:id'),
  row('get', '/api/provider-keys', '/v1/provider-keys', { has_org }),
  row('post', '/api/provider-keys', '/v1/provider-keys', { has_org }),
  row('put', '/api/provider-keys/:id', '/v1/provider-keys/:id'),
  row('post', '/api/provider-keys/:id/rotate', '/v1/provider-keys/:id/rotate'),
  row('delete', '/api/provider-keys/:id', '/v1/provider-keys/:id'),
  row('get', '/api/notice-destinations', '/v1/notice-destinations', { has_org }),
  row('post', '/api/notice-destinations', '/v1/notice-destinations', { has_org }),
  row('put', '/api/notice-destinations/:id', '/v1/notice-destinations/:id'),
  row('delete', '/api/notice-destinations/:id', '/v1/notice-destinations/:id'),
  row('post', '/api/notice-destinations/:id/test', '/v1/notice-destinations/:id/test'),
  row('post', '/api/notice-destinations/:id/recipients', '/v1/notice-destinations/:id/recipients'),
  row('post', '/api/notice-recipients/:id/confirm', '/v1/notice-recipients/:id/confirm'),
  row('delete', '/api/notice-recipients/:id', '/v1/notice-recipients/:id'),
  row('get', '/api/notice-messages', '/v1/notice-messages', { has_org }),
  row('post', '/api/notice-messages/:id/replay', '/v1/notice-messages/:id/replay'),
];
