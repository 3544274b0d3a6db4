import { row } from './row';

const has_org = true;

export const ticketRows = [
  row('get', '/api/tickets', '/v1/cost-tickets', { has_org }),
  row('post', '/api/tickets/verdicts', '/v1/cost-tickets/verdicts', { has_org }),
  row('get', '/api/tickets/:id', '/v1/cost-tickets/:id'),
  row('post', '/api/tickets/:id/approve', '/v1/cost-tickets/:id/approve'),
  row('post', '/api/tickets/:id/deny', '/v1/cost-tickets/:id/deny'),
  row('get', '/api/approval-rules', '/v1/approval-rules', { has_org }),
  row('post', '/api/approval-rules', '/v1/approval-rules', { has_org }),
  row('put', '/api/approval-rules/:id', '/v1/approval-rules/:id'),
  row('delete', '/api/approval-rules/:id', '/v1/approval-rules/:id'),
];
