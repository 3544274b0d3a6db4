const path = (name) => `/test/${name}.test.ts`;

// Test files that start processes, wait for time to pass, play hundreds of orders, or replay
// histories (which leaves the SDK's promise hooks in their process), the longest first. They begin
// first, and the quick part of the suite leaves them out.
const slow = [
  'whole/kill-payments',
  'whole/start',
  'whole/kill',
  'whole/docs-recipes',
  'domain/ledger/tickets-queue',
  'whole/payment-chaos',
  'whole/outage-payments',
  'whole/outage',
  'whole/payment-interleavings',
  'gateway/sockets/slow-clients',
  'workflows/payment-session',
  'workflows/replay',
  'workflows/long-session',
  'whole/one-trace',
  'workflows/reservation-lifetimes',
].map(path);

// Test files that take seconds and leave the processor idle for most of them, the longest first:
// they wait for a limit of time that the product keeps. Each runs beside files that compute.
const idle = [
  'gateway/control-plane/lost-answers',
  'gateway/exchange/streams',
  'workflows/cost-ticket',
  'gateway/exchange/broken-upstreams',
  'gateway/limits/store',
  'gateway/telemetry/exports',
  'gateway/control-plane/two-addresses',
  'api/payments/refunds',
  'gateway/limits/draining',
  'gateway/limits/refusals',
  'workers/dispatcher',
  'domain/ledger/tickets-fairness',
  'gateway/ready',
  'gateway/money',
  'api/routes/ticket-waits',
  'gateway/process',
  'api/process',
].map(path);

module.exports = { slow, idle };
