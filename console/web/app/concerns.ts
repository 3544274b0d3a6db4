/** What a call that ended has changed. */
const SPENT = [
  ...['/api/wallets', '/api/spend', '/api/requests', '/api/agents'],
  ...['/api/budgets', '/api/keys', '/api/my-keys'],
];

/** Which screens read anew after an event, by the beginning of its type. */
const concerns: readonly [begin: string, paths: string[]][] = [
  ['cost_ticket', ['/api/tickets', '/api/wallets', '/api/chat/tickets']],
  ['wallet', ['/api/wallets', '/api/me']],
  ['reservation', ['/api/wallets', '/api/agents']],
  ['settlement', ['/api/wallets', '/api/spend']],
  ['payment', ['/api/payments', '/api/admin/payments', '/api/wallets', '/api/chat']],
  ['key', ['/api/keys', '/api/my-keys']],
  ['provider_key', ['/api/provider-keys']],
  ['budget', ['/api/budgets', '/api/tickets']],
  ['request', SPENT],
  ['gateway', ['/api/gateways']],
  ['export', ['/api/exports']],
  ['notice', ['/api/notice-destinations']],
];

/** What is to be read anew after an event of a type. */
export function pathsOf(type: string): string[] {
  return concerns.flatMap(([begin, paths]) => (type.startsWith(begin) ? paths : []));
}
