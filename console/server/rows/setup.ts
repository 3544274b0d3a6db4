import { row } from './row';

// What the first run asks beside the rows of other screens.
export const setupRows = [
  row('get', '/api/setup/prices', '/v1/admin/model-pricing'),
  row('post', '/api/setup/prices', '/v1/admin/model-pricing'),
];
