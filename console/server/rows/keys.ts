import { row } from './row';

const has_org = true;

export const keyRows = [
  row('get', '/api/keys', '/v1/tokens', { has_org }),
  // Keys of programs that govern the organization are made at a terminal.
  row('post', '/api/keys', '/v1/tokens', { has_org, forced: { token_type: 'gateway' } }),
  row('get', '/api/keys/:name', '/v1/tokens/:name', { has_org }),
  row('patch', '/api/keys/:name', '/v1/tokens/:name', { has_org }),
  row('delete', '/api/keys/:name', '/v1/tokens/:name', { has_org }),
  row('post', '/api/keys/:name/rotate', '/v1/tokens/:name/rotate', { has_org }),
  row('get', '/api/my-keys', '/v1/me/keys'),
  row('post', '/api/my-keys', '/v1/me/keys'),
  row('patch', '/api/my-keys/:name', '/v1/me/keys/:name'),
  row('delete', '/api/my-keys/:name', '/v1/me/keys/:name'),
  row('post', '/api/my-keys/:name/rotate', '/v1/me/keys/:name/rotate'),
  row('get', '/api/member-keys/:id', '/v1/organizations/:id/member-keys'),
  row('put', '/api/member-keys/:id', '/v1/organizations/:id/member-keys'),
];
