import { constraintRoutes } from './constraints';
import { eventRoutes } from './events';
import { gatewayRoutes } from './gateway';
import { operationRoutes } from './operations';
import { organizationRoutes } from './organizations';
import { pricingRoutes } from './pricing';
import { ticketRoutes } from './tickets';
import { tokenRoutes } from './tokens';
import { walletRoutes } from './wallets';

/** Every route of the control plane: what the app serves and what the OpenAPI document says. */
export const routes = [
  ...walletRoutes,
  ...pricingRoutes,
  ...organizationRoutes,
  ...tokenRoutes,
  ...constraintRoutes,
  ...ticketRoutes,
  ...gatewayRoutes,
  ...eventRoutes,
  ...operationRoutes,
];
