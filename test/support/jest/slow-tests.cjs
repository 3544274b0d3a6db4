// Test files that start processes, wait for time to pass, play hundreds of orders, or replay histories (which leaves the SDK's
// promise hooks in their process), the longest first. They begin first, and the quick part of the suite leaves them out.
module.exports = [
  'payment-interleavings',
  'start',
  'whole/docs-recipes',
  'kill-payments',
  'kill',
  'ticket-queue',
  'payment-chaos',
  'outage-payments',
  'outage',
  'workflows/payment-session',
  'workflows/replay',
  'whole/one-trace',
  'workflows/reservation-lifetimes',
].map((name) => `/test/${name}.test.ts`);
