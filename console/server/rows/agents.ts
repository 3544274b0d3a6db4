import { row } from './row';

export const agentRows = [
  row('get', '/api/organizations/:id/agents', '/v1/organizations/:id/agents'),
  row('post', '/api/organizations/:id/agents', '/v1/organizations/:id/agents'),
  row('get', '/api/organizations/:id/agents/:agent_id', '/v1/organizations/:id/agents/:agent_id'),
  row('patch', '/api/organizations/:id/agents/:agent_id', '/v1/organizations/:id/agents/:agent_id'),
  row(
    'delete',
    '/api/organizations/:id/agents/:agent_id',
    '/v1/organizations/:id/agents/:agent_id',
  ),
  row('get', '/api/agents/:id/usage-constraints', '/v1/agents/:id/usage-constraints'),
  row('post', '/api/agents/:id/usage-constraints', '/v1/agents/:id/usage-constraints'),
  row('put', '/api/agents/:id/usage-constraints/:cid', '/v1/agents/:id/usage-constraints/:cid'),
  row('delete', '/api/agents/:id/usage-constraints/:cid', '/v1/agents/:id/usage-constraints/:cid'),
];
