import { row } from './row';

const has_org = true;

export const exportRows = [
  row('get', '/api/exports', '/v1/exports', { has_org }),
  row('post', '/api/exports', '/v1/exports', { has_org }),
  row('get', '/api/exports/:id', '/v1/exports/:id'),
  row('delete', '/api/exports/:id', '/v1/exports/:id'),
  row('get', '/api/exports/:id/files/:n', '/v1/exports/:id/files/:n', {
    answers: 'file',
    page: '/exports/:id',
  }),
  row('get', '/api/export-destinations', '/v1/export-destinations', { has_org }),
  row('get', '/api/export-schedules', '/v1/export-schedules', { has_org }),
  row('post', '/api/export-schedules', '/v1/export-schedules', { has_org }),
  row('delete', '/api/export-schedules/:id', '/v1/export-schedules/:id'),
];
