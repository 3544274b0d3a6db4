// Test files that start processes, wait for time to pass, play hundreds of orders, or replay
// histories (which leaves the SDK's promise hooks in their process), the longest first. They begin
// first, and the quick part of the suite leaves them out.
module.exports = [
  'whole/payment-interleavings',
  'whole/start',
  'whole/docs-recipes',
  'whole/kill-payments',
  'whole/kill',
  'domain/ledger/tickets-queue',
  'whole/payment-chaos',
  'whole/outage-payments',
  'whole/outage',
  'gateway/sockets/slow-clients',
  'workflows/payment-session',
  'workflows/replay',
  'workflows/long-session',
  'whole/one-trace',
  'workflows/reservation-lifetimes',
].map((name) => `/test/${name}.test.ts`);
