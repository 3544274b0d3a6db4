import { row } from './row';

const gateway_key = {
  token_type: 'access',
  scopes: ['control_plane'],
  org_id: null,
  user_id: null,
} as const;

// What the first run asks beside the rows of other screens.
export const setupRows = [
  row('get', '/api/setup/prices', '/v1/admin/model-pricing'),
  row('post', '/api/setup/prices', '/v1/admin/model-pricing'),
  row('get', '/api/setup/provider-kinds', '/v1/admin/provider-kinds'),
  // The key of the first gateway, which stands for gateways and for nothing else.
  row('post', '/api/setup/gateway-keys', '/v1/tokens', { has_org: true, forced: gateway_key }),
];
