import { row } from './row';

const has_org = true;

export const operationRows = [
  row('get', '/api/events', '/v1/events', { has_org }),
  row('get', '/api/events/stream', '/v1/events/stream', { has_org, answers: 'events' }),
  row('get', '/api/gateways', '/v1/admin/gateways'),
  row('get', '/api/workers/status', '/v1/admin/workers/status'),
];
