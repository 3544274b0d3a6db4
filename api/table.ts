import { invitationRoutes } from './identity/invitations';
import { issuerRoutes } from './identity/issuers';
import { meRoutes } from './identity/me';
import { sessionRoutes } from './identity/sessions';
import { gatewayEventRoutes } from './machine/events';
import { gatewayConfigRoutes } from './machine/gateway-config';
import { gatewayRoutes } from './machine/routes';
import { noticeDestinationRoutes } from './notices/destinations';
import { noticeMessageRoutes } from './notices/messages';
import { noticeRecipientRoutes } from './notices/recipients';
import { paymentAdminRoutes } from './payments/admin';
import { legacyPaymentRoutes } from './payments/legacy';
import { paymentRoutes } from './payments/routes';
import { paymentSettingsRoutes } from './payments/settings';
import { webhookRoutes } from './payments/webhooks';
import { agentRoutes } from './people/agents';
import { meKeyRoutes } from './people/me-keys';
import { memberRoutes } from './people/members';
import { nameRoutes } from './people/names';
import { organizationRoutes } from './people/organizations';
import { providerKeyRoutes } from './people/provider-keys';
import { teamRoutes } from './people/teams';
import { tokenRoutes } from './people/tokens';
import { approvalRuleRoutes } from './routes/approval-rules';
import { auditEventRoutes } from './routes/audit-events';
import { budgetRoutes } from './routes/budgets';
import { configRolloutRoutes } from './routes/config-rollouts';
import { constraintRoutes } from './routes/constraints';
import { eventRoutes } from './routes/events';
import { excessRoutes } from './routes/excess';
import { exportDestinationRoutes } from './routes/export-destinations';
import { exportScheduleRoutes } from './routes/export-schedules';
import { exportRoutes } from './routes/exports';
import { gatewayRoutesOfAdmins } from './routes/gateways';
import { ledgerRoutes } from './routes/ledger';
import { operationRoutes } from './routes/operations';
import { priceImportRoutes } from './routes/price-imports';
import { priceSheetRoutes } from './routes/price-sheets';
import { pricingRoutes } from './routes/pricing';
import { spendRoutes } from './routes/spend';
import { teamWalletRoutes } from './routes/team-wallets';
import { ticketLinkRoutes } from './routes/ticket-links';
import { ticketRoutes } from './routes/tickets';
import { walletSettingsRoutes } from './routes/wallet-settings';
import { walletRoutes } from './routes/wallets';
import { workerRoutes } from './routes/workers';

/** Every route of the control plane, for the app and for the OpenAPI document. */
export const routes = [
  ...walletRoutes,
  ...ledgerRoutes,
  ...teamWalletRoutes,
  ...walletSettingsRoutes,
  ...pricingRoutes,
  ...priceImportRoutes,
  ...excessRoutes,
  ...priceSheetRoutes,
  ...spendRoutes,
  ...organizationRoutes,
  ...nameRoutes,
  ...teamRoutes,
  ...memberRoutes,
  ...agentRoutes,
  ...tokenRoutes,
  ...providerKeyRoutes,
  ...sessionRoutes,
  ...meRoutes,
  ...issuerRoutes,
  ...invitationRoutes,
  ...meKeyRoutes,
  ...constraintRoutes,
  ...budgetRoutes,
  ...ticketRoutes,
  ...ticketLinkRoutes,
  ...approvalRuleRoutes,
  ...paymentRoutes,
  ...paymentAdminRoutes,
  ...paymentSettingsRoutes,
  ...webhookRoutes,
  ...legacyPaymentRoutes,
  ...gatewayRoutes,
  ...gatewayRoutesOfAdmins,
  ...configRolloutRoutes,
  ...gatewayConfigRoutes,
  ...eventRoutes,
  ...gatewayEventRoutes,
  ...auditEventRoutes,
  ...operationRoutes,
  ...workerRoutes,
  ...exportRoutes,
  ...exportDestinationRoutes,
  ...exportScheduleRoutes,
  ...noticeDestinationRoutes,
  ...noticeRecipientRoutes,
  ...noticeMessageRoutes,
];
