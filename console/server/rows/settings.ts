import { row } from './row';

const has_org = true;

export const settingRows = [
  row('get', '/api/sessions', '/v1/sessions', { has_org }),
  row('delete', '/api/sessions', '/v1/sessions', { has_org }),
  row('delete', '/api/sessions/:id', '/v1/sessions/:id', { has_org }),
];
