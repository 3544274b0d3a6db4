import { row } from './row';

const has_org = true;

export const operationRows = [
  row('get', '/api/events', '/v1/events', { has_org }),
  row('get', '/api/events/stream', '/v1/events/stream', { has_org, answers: 'events' }),
  row('get', '/api/events/:id', '/v1/events/:id', { has_org }),
  row('get', '/api/gateways', '/v1/admin/gateways'),
  row('get', '/api/gateway-config', '/v1/admin/gateway-config'),
  row('put', '/api/gateway-config', '/v1/admin/gateway-config'),
  row('delete', '/api/gateway-config', '/v1/admin/gateway-config'),
  row('get', '/api/gateway-config/versions', '/v1/admin/gateway-config/versions'),
  row('get', '/api/config-rollouts', '/v1/admin/config-rollouts'),
  row('post', '/api/config-rollouts', '/v1/admin/config-rollouts'),
  row('get', '/api/config-rollouts/:id', '/v1/admin/config-rollouts/:id'),
  row('post', '/api/config-rollouts/:id/pause', '/v1/admin/config-rollouts/:id/pause'),
  row('post', '/api/config-rollouts/:id/resume', '/v1/admin/config-rollouts/:id/resume'),
  row('post', '/api/config-rollouts/:id/abort', '/v1/admin/config-rollouts/:id/abort'),
  row('get', '/api/workers/status', '/v1/admin/workers/status'),
  row('get', '/api/outbox', '/v1/admin/outbox'),
  row('post', '/api/outbox/:id/retry', '/v1/admin/outbox/:id/retry'),
  row('get', '/api/audit', '/v1/admin/audit'),
];
