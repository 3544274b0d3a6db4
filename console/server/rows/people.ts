import { row } from './row';

export const peopleRows = [
  row('get', '/api/me', '/v1/me'),
  row('get', '/api/names', '/v1/names'),
  row('get', '/api/organizations', '/v1/admin/organizations'),
  row('post', '/api/organizations', '/v1/admin/organizations'),
  row('get', '/api/organizations/:id', '/v1/organizations/:id'),
  row('patch', '/api/organizations/:id', '/v1/organizations/:id'),
  row('post', '/api/organizations/:id/suspend', '/v1/admin/organizations/:id/suspend'),
  row('post', '/api/organizations/:id/unsuspend', '/v1/admin/organizations/:id/unsuspend'),
  row('post', '/api/organizations/:id/archive', '/v1/admin/organizations/:id/archive'),
  row('post', '/api/organizations/:id/unarchive', '/v1/admin/organizations/:id/unarchive'),
  row('get', '/api/organizations/:id/members', '/v1/organizations/:id/members'),
  row('post', '/api/organizations/:id/members', '/v1/organizations/:id/members'),
  row('patch', '/api/organizations/:id/members/:user_id', '/v1/organizations/:id/members/:user_id'),
  row('put', '/api/organizations/:id/members/:user_id', '/v1/organizations/:id/members/:user_id'),
  row(
    'delete',
    '/api/organizations/:id/members/:user_id',
    '/v1/organizations/:id/members/:user_id',
  ),
  row(
    'post',
    '/api/organizations/:id/members/:user_id/invitations',
    '/v1/organizations/:id/members/:user_id/invitations',
  ),
  row('get', '/api/organizations/:id/teams', '/v1/organizations/:id/teams'),
  row('post', '/api/organizations/:id/teams', '/v1/organizations/:id/teams'),
  row('get', '/api/organizations/:id/teams/:team_id', '/v1/organizations/:id/teams/:team_id'),
  row('patch', '/api/organizations/:id/teams/:team_id', '/v1/organizations/:id/teams/:team_id'),
  row('delete', '/api/organizations/:id/teams/:team_id', '/v1/organizations/:id/teams/:team_id'),
  row(
    'post',
    '/api/organizations/:id/teams/:team_id/allocate',
    '/v1/organizations/:id/teams/:team_id/allocate',
  ),
  row(
    'post',
    '/api/organizations/:id/teams/:team_id/reclaim',
    '/v1/organizations/:id/teams/:team_id/reclaim',
  ),
  row(
    'get',
    '/api/organizations/:id/teams/:team_id/members',
    '/v1/organizations/:id/teams/:team_id/members',
  ),
  row(
    'post',
    '/api/organizations/:id/teams/:team_id/members',
    '/v1/organizations/:id/teams/:team_id/members',
  ),
  row(
    'put',
    '/api/organizations/:id/teams/:team_id/members/:user_id',
    '/v1/organizations/:id/teams/:team_id/members/:user_id',
  ),
  row(
    'delete',
    '/api/organizations/:id/teams/:team_id/members/:user_id',
    '/v1/organizations/:id/teams/:team_id/members/:user_id',
  ),
];
