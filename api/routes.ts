import { constraintRoutes } from './constraints';
import { eventRoutes } from './events';
import { gatewayRoutes } from './gateway';
import { gatewayConfigRoutes } from './gateway-config';
import { operationRoutes } from './operations';
import { organizationRoutes } from './organizations';
import { paymentAdminRoutes } from './payment-admin';
import { legacyPaymentRoutes } from './payment-legacy';
import { paymentSettingsRoutes } from './payment-settings';
import { webhookRoutes } from './payment-webhooks';
import { paymentRoutes } from './payments';
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
  ...paymentRoutes,
  ...paymentAdminRoutes,
  ...paymentSettingsRoutes,
  ...webhookRoutes,
  ...legacyPaymentRoutes,
  ...gatewayRoutes,
  ...gatewayConfigRoutes,
  ...eventRoutes,
  ...operationRoutes,
];
