// Every workflow by its type name. Names are wire contracts: histories hold them.
export { audit } from './audit';
export { configRollout, wakeRollout } from './config-rollout';
export { costTicket, decide, resolved } from './cost-ticket';
export { canceled, exportJob } from './export-job';
export { exportUpkeep } from './export-upkeep';
export { notices, wakeNotices } from './notices';
export { paymentRefund, refundResult } from './payment-refund';
export { approval, cancel, confirm, paymentSession, providerEvent } from './payment-session';
export { pricesCheck } from './prices-check';
export { reconcile } from './reconcile';
export { reservationLifetimes, wake } from './reservation-lifetimes';
