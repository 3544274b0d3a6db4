/**
 * Who calls: `gateway` is a gateway key, `other` another tenant's owner, `control` a gateway's own
 * token.
 */
export const callers = [
  'nobody',
  'gateway',
  'member',
  'admin',
  'billing',
  'owner',
  'other',
  'platform',
  'control',
  'revoked',
  'expired',
] as const;

/**
 * The status that each caller gets, in the order of the callers. What is asked for is the first
 * tenant's, and whole: 409 and 422 come after the question whether the caller may.
 */
export const rows = read(`
  get /v1/wallets                                               401 401 200 200 200 200 404 200 403 401 401
  get /v1/wallets/balance                                       401 401 200 200 200 200 404 200 403 401 401
  get /v1/wallets/:id                                           401 401 200 200 200 200 404 200 403 401 401
  get /v1/wallets/:id/transactions                              401 401 200 200 200 200 404 200 403 401 401
  get /v1/wallets/:id/reservations                              401 401 403 403 200 200 404 200 403 401 401
  get /v1/requests/:id                                          401 401 404 404 200 200 404 200 403 401 401
  put /v1/wallets/:id                                           401 401 403 403 200 200 404 200 403 401 401
  post /v1/wallets/credit                                       401 401 403 403 201 201 404 201 403 401 401
  post /v1/wallets/allocate                                     401 401 403 403 200 200 404 200 403 401 401
  post /v1/wallets/reclaim                                      401 401 403 403 409 409 404 409 403 401 401
  get /v1/admin/wallets                                         401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/wallets/:id/transactions                        401 401 403 403 403 403 403 200 403 401 401
  put /v1/admin/wallets/:id                                     401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/wallets/credit                                 401 401 403 403 403 403 403 201 403 401 401
  get /v1/organizations/:id/wallet-settings                     401 401 403 403 200 200 404 200 403 401 401
  get /v1/admin/organizations/:id/wallet-settings               401 401 403 403 403 403 403 200 403 401 401
  put /v1/admin/organizations/:id/wallet-settings               401 401 403 403 403 403 403 200 403 401 401
  get /v1/model-pricing                                         200 200 200 200 200 200 200 200 200 200 200
  get /v1/admin/model-pricing                                   401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/model-pricing                                  401 401 403 403 403 403 403 201 403 401 401
  post /v1/admin/model-pricing/preview                          401 401 403 403 403 403 403 200 403 401 401
  put /v1/admin/model-pricing/:id                               401 401 403 403 403 403 403 200 403 401 401
  delete /v1/admin/model-pricing/:id                            401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/price-plan                                      401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/price-imports/diff                             401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/price-imports                                  401 401 403 403 403 403 403 201 403 401 401
  get /v1/admin/price-imports                                   401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/price-imports/:id/undo                         401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/price-check                                     401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/exchange-rates                                  401 401 403 403 403 403 403 200 403 401 401
  put /v1/admin/exchange-rates                                  401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/settlement-excess                               401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/settlement-excess/:id                          401 401 403 403 403 403 403 404 403 401 401
  get /v1/reservations/:id/price-sheet                          401 401 403 403 200 200 404 200 403 401 401
  get /v1/admin/provider-kinds                                  401 401 403 403 403 403 403 200 403 401 401
  get /v1/names                                                 401 401 200 200 200 200 200 200 403 401 401
  get /v1/spend                                                 401 401 200 200 200 200 404 200 403 401 401
  get /v1/spend/top                                             401 401 200 200 200 200 404 200 403 401 401
  get /v1/admin/spend                                           401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/spend/top                                       401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/organizations                                   401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/organizations                                  401 401 403 403 403 403 403 201 403 401 401
  get /v1/organizations/:id                                     401 401 200 200 200 200 404 200 403 401 401
  get /v1/organizations/:id/teams                               401 401 200 200 200 200 404 200 403 401 401
  post /v1/organizations/:id/teams                              401 401 403 201 403 201 404 201 403 401 401
  delete /v1/organizations/:id/teams/:team_id                   401 401 403 200 403 200 404 200 403 401 401
  post /v1/organizations/:id/teams/:team_id/members             401 401 403 201 403 201 404 201 403 401 401
  put /v1/organizations/:id/teams/:team_id/members/:user_id     401 401 403 200 403 200 404 200 403 401 401
  delete /v1/organizations/:id/teams/:team_id/members/:user_id  401 401 403 200 403 200 404 200 403 401 401
  get /v1/organizations/:id/members                             401 401 200 200 200 200 404 200 403 401 401
  post /v1/organizations/:id/members                            401 401 403 201 403 201 404 201 403 401 401
  put /v1/organizations/:id/members/:user_id                    401 401 403 200 403 200 404 200 403 401 401
  delete /v1/organizations/:id/members/:user_id                 401 401 403 200 403 200 404 200 403 401 401
  get /v1/organizations/:id/agents                              401 401 403 200 403 200 404 200 403 401 401
  post /v1/organizations/:id/agents                             401 401 403 201 403 201 404 201 403 401 401
  delete /v1/organizations/:id/agents/:agent_id                 401 401 403 200 403 200 404 200 403 401 401
  post /v1/tokens                                               401 401 403 201 403 201 404 201 403 401 401
  get /v1/tokens                                                401 401 403 200 403 200 404 200 403 401 401
  get /v1/tokens/:name                                          401 401 403 200 403 200 404 200 403 401 401
  delete /v1/tokens/:name                                       401 401 403 200 403 200 404 200 403 401 401
  post /v1/tokens/:name/rotate                                  401 401 403 201 403 201 404 201 403 401 401
  post /v1/sessions                                             422 403 201 403 403 403 403 403 403 401 401
  get /v1/sessions                                              401 401 200 200 200 200 404 200 403 401 401
  delete /v1/sessions                                           401 401 404 200 404 200 404 200 403 401 401
  delete /v1/sessions/:id                                       401 401 404 200 404 200 404 200 403 401 401
  get /v1/me                                                    401 401 200 200 200 200 200 200 403 401 401
  get /v1/issuers                                               200 200 200 200 200 200 200 200 200 200 200
  get /v1/admin/issuers                                         401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/issuers                                        401 401 403 403 403 403 403 201 403 401 401
  put /v1/admin/issuers/:id                                     401 401 403 403 403 403 403 200 403 401 401
  delete /v1/admin/issuers/:id                                  401 401 403 403 403 403 403 200 403 401 401
  post /v1/organizations/:id/members/:user_id/invitations       401 401 403 201 403 201 404 201 403 401 401
  get /v1/organizations/:id/members/:user_id/identities         401 401 403 200 403 200 404 200 403 401 401
  delete /v1/organizations/:id/members/:user_id/identities/:identity_id  401 401 403 200 403 200 404 200 403 401 401
  post /v1/admin/organizations/:id/suspend                      401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/organizations/:id/unsuspend                    401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/organizations/:id/archive                      401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/organizations/:id/unarchive                    401 401 403 403 403 403 403 200 403 401 401
  patch /v1/organizations/:id                                   401 401 403 200 403 200 404 200 403 401 401
  get /v1/organizations/:id/teams/:team_id                      401 401 200 200 200 200 404 200 403 401 401
  patch /v1/organizations/:id/teams/:team_id                    401 401 403 200 403 200 404 200 403 401 401
  get /v1/organizations/:id/teams/:team_id/members              401 401 200 200 200 200 404 200 403 401 401
  post /v1/organizations/:id/teams/:team_id/allocate            401 401 403 403 409 409 404 409 403 401 401
  post /v1/organizations/:id/teams/:team_id/reclaim             401 401 403 403 409 409 404 409 403 401 401
  post /v1/organizations/:id/members/bulk                       401 401 403 200 403 200 404 200 403 401 401
  get /v1/organizations/:id/members/:user_id                    401 401 200 200 200 200 404 200 403 401 401
  patch /v1/organizations/:id/members/:user_id                  401 401 403 200 403 200 404 200 403 401 401
  get /v1/organizations/:id/agents/:agent_id                    401 401 403 200 403 200 404 200 403 401 401
  patch /v1/organizations/:id/agents/:agent_id                  401 401 403 200 403 200 404 200 403 401 401
  patch /v1/tokens/:name                                        401 401 403 200 403 200 404 200 403 401 401
  get /v1/organizations/:id/member-keys                         401 401 200 200 200 200 404 200 403 401 401
  put /v1/organizations/:id/member-keys                         401 401 403 200 403 200 404 200 403 401 401
  post /v1/me/keys                                              401 401 201 403 403 403 403 403 403 401 401
  get /v1/me/keys                                               401 401 200 403 403 403 403 403 403 401 401
  get /v1/me/keys/:name                                         401 401 200 403 403 403 403 403 403 401 401
  patch /v1/me/keys/:name                                       401 401 200 403 403 403 403 403 403 401 401
  delete /v1/me/keys/:name                                      401 401 200 403 403 403 403 403 403 401 401
  post /v1/me/keys/:name/rotate                                 401 401 201 403 403 403 403 403 403 401 401
  get /v1/agents/:id/usage-constraints                          401 401 403 200 403 200 404 200 403 401 401
  post /v1/agents/:id/usage-constraints                         401 401 403 201 403 201 404 201 403 401 401
  put /v1/agents/:id/usage-constraints/:cid                     401 401 403 200 403 200 404 200 403 401 401
  delete /v1/agents/:id/usage-constraints/:cid                  401 401 403 200 403 200 404 200 403 401 401
  get /v1/gateway/agents/:id/usage-check                        401 401 403 403 403 403 403 403 422 401 401
  post /v1/gateway/agents/:id/usage-increment                   401 401 403 403 403 403 403 403 422 401 401
  get /v1/budgets                                               401 401 200 200 200 200 404 200 403 401 401
  post /v1/budgets                                              401 401 403 403 201 201 404 201 403 401 401
  get /v1/budgets/:id                                           401 401 403 403 200 200 404 200 403 401 401
  put /v1/budgets/:id                                           401 401 403 403 200 200 404 200 403 401 401
  delete /v1/budgets/:id                                        401 401 403 403 200 200 404 200 403 401 401
  get /v1/approval-rules                                        401 401 403 403 200 200 404 200 403 401 401
  post /v1/approval-rules                                       401 401 403 403 201 201 404 201 403 401 401
  put /v1/approval-rules/:id                                    401 401 403 403 200 200 404 200 403 401 401
  delete /v1/approval-rules/:id                                 401 401 403 403 200 200 404 200 403 401 401
  post /v1/cost-tickets/verdicts                                401 401 403 403 200 200 404 200 403 401 401
  get /v1/cost-tickets                                          401 401 403 403 200 200 404 200 403 401 401
  get /v1/cost-tickets/:id                                      401 401 403 403 200 200 404 200 403 401 401
  post /v1/cost-tickets/:id/approve                             401 401 403 403 200 200 404 200 403 401 401
  post /v1/cost-tickets/:id/deny                                401 401 403 403 200 200 404 200 403 401 401
  post /v1/payments/create-checkout                             401 401 409 409 409 409 404 409 403 401 401
  post /v1/payments/confirm-checkout                            401 401 403 404 404 404 404 404 403 401 401
  get /v1/payments/sessions                                     401 401 200 200 200 200 404 200 403 401 401
  get /v1/payments/sessions/:id                                 401 401 200 404 200 200 404 200 403 401 401
  post /v1/payments/sessions/:id/cancel                         401 401 200 404 404 404 404 404 403 401 401
  get /v1/payments/history                                      401 401 403 403 200 200 404 200 403 401 401
  get /v1/admin/payments                                        401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/payments/webhooks                               401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/payments/refund                                401 401 403 403 403 403 403 409 403 401 401
  post /v1/admin/payments/:id/resolve                           401 401 403 403 403 403 403 409 403 401 401
  get /v1/payments/options                                      401 401 200 200 200 200 404 200 403 401 401
  get /v1/payments/settings                                     401 401 403 403 200 200 404 200 403 401 401
  put /v1/payments/settings                                     401 401 403 403 200 200 404 200 403 401 401
  get /v1/admin/payments/config                                 401 401 403 403 403 403 403 200 403 401 401
  put /v1/admin/payments/config                                 401 401 403 403 403 403 403 200 403 401 401
  post /v1/payments/webhooks/:provider                          401 401 401 401 401 401 401 401 401 401 401
  post /v1/payments/webhook                                     401 401 401 401 401 401 401 401 401 401 401
  post /v1/payments/create-order                                401 401 422 422 422 422 422 422 403 401 401
  post /v1/payments/capture-order                               401 401 404 404 404 404 404 403 403 401 401
  post /v1/gateway/wallets/reserve                              401 401 403 403 403 403 403 403 402 401 401
  post /v1/gateway/wallets/settle                               401 401 403 403 403 403 403 403 422 401 401
  post /v1/gateway/wallets/redeem-ticket                        401 401 403 403 403 403 403 403 422 401 401
  post /v1/gateway/wallets/extend                               401 401 403 403 403 403 403 403 422 401 401
  post /v1/gateway/wallets/batch                                401 401 403 403 403 403 403 403 422 401 401
  post /v1/gateway/keys/verify                                  401 401 403 403 403 403 403 403 422 401 401
  post /v1/gateway/keys/funds                                401 401 403 403 403 403 403 403 200 401 401
  post /v1/gateway/provider-keys                                401 401 403 403 403 403 403 403 200 401 401
  post /v1/gateway/people/verify                                401 401 403 403 403 403 403 403 422 401 401
  get /v1/admin/gateway-config                                  401 401 403 403 403 403 403 200 403 401 401
  put /v1/admin/gateway-config                                  401 401 403 403 403 403 403 200 403 401 401
  delete /v1/admin/gateway-config                               401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/gateway-config/versions                         401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/gateways                                        401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/config-rollouts                                401 401 403 403 403 403 403 201 403 401 401
  get /v1/admin/config-rollouts                                 401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/config-rollouts/:id                             401 401 403 403 403 403 403 404 403 401 401
  post /v1/admin/config-rollouts/:id/pause                      401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/config-rollouts/:id/resume                     401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/config-rollouts/:id/abort                      401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/config-rollouts/:id/promote                    401 401 403 403 403 403 403 200 403 401 401
  get /v1/gateway/config                                        401 401 403 403 403 403 403 403 404 401 401
  post /v1/gateway/config/report                                401 401 403 403 403 403 403 403 422 401 401
  get /v1/events                                                401 401 403 200 200 200 404 200 403 401 401
  get /v1/events/stream                                         401 401 200 200 200 200 404 200 403 401 401
  get /v1/events/:id                                            401 401 403 200 200 200 404 200 403 401 401
  post /v1/gateway/events                                       401 401 403 403 403 403 403 403 422 401 401
  get /v1/audit-events                                          401 401 403 200 403 200 404 200 403 401 401
  get /v1/audit-log                                             401 401 403 200 200 200 404 200 403 401 401
  get /health                                                   200 200 200 200 200 200 200 200 200 200 200
  get /readyz                                                   200 200 200 200 200 200 200 200 200 200 200
  get /v1/admin/audit                                           401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/workers/status                                  401 401 403 403 403 403 403 200 403 401 401
  get /v1/admin/outbox                                          401 401 403 403 403 403 403 200 403 401 401
  post /v1/admin/outbox/:id/retry                               401 401 403 403 403 403 403 200 403 401 401
  post /v1/exports                                              401 401 403 403 201 201 404 201 403 401 401
  get /v1/exports                                               401 401 403 403 200 200 404 200 403 401 401
  post /v1/admin/exports                                        401 401 403 403 403 403 403 201 403 401 401
  get /v1/admin/exports                                         401 401 403 403 403 403 403 200 403 401 401
  get /v1/exports/:id                                           401 401 403 403 200 200 404 200 403 401 401
  delete /v1/exports/:id                                        401 401 403 403 200 200 404 200 403 401 401
  get /v1/exports/:id/files/:n                                  401 401 403 403 404 404 404 404 403 401 401
  post /v1/export-destinations                                  401 401 403 403 422 422 404 422 403 401 401
  post /v1/export-schedules                                     401 401 403 403 201 201 404 201 403 401 401
  get /v1/export-schedules                                      401 401 403 403 200 200 404 200 403 401 401
  delete /v1/export-schedules/:id                               401 401 403 403 200 200 404 200 403 401 401
  get /v1/export-destinations                                   401 401 403 403 200 200 404 200 403 401 401
  delete /v1/export-destinations/:id                            401 401 403 403 200 200 404 200 403 401 401
  post /v1/provider-keys                                        401 401 403 403 201 201 404 201 403 401 401
  get /v1/provider-keys                                         401 401 403 403 200 200 404 200 403 401 401
  put /v1/provider-keys/:id                                     401 401 403 403 200 200 404 200 403 401 401
  post /v1/provider-keys/:id/rotate                             401 401 403 403 200 200 404 200 403 401 401
  delete /v1/provider-keys/:id                                  401 401 403 403 200 200 404 200 403 401 401
  post /v1/notice-destinations                                  401 401 403 403 422 422 404 422 403 401 401
  get /v1/notice-destinations                                   401 401 403 403 200 200 404 200 403 401 401
  get /v1/notice-destinations/:id                               401 401 403 403 200 200 404 200 403 401 401
  put /v1/notice-destinations/:id                               401 401 403 403 200 200 404 200 403 401 401
  delete /v1/notice-destinations/:id                            401 401 403 403 200 200 404 200 403 401 401
  post /v1/notice-destinations/:id/test                         401 401 403 403 201 201 404 201 403 401 401
  post /v1/notice-destinations/:id/recipients                   401 401 403 403 201 201 404 201 403 401 401
  post /v1/notice-recipients/:id/confirm                        401 401 403 403 404 404 404 404 403 401 401
  delete /v1/notice-recipients/:id                              401 401 403 403 200 200 404 200 403 401 401
  get /v1/notice-messages                                       401 401 403 403 200 200 404 200 403 401 401
  get /v1/notice-messages/:id                                   401 401 403 403 200 200 404 200 403 401 401
  post /v1/notice-messages/:id/replay                           401 401 403 403 200 200 404 200 403 401 401
  get /v1/notices                                               401 401 403 403 200 200 404 200 403 401 401
  post /v1/ticket-links/look                                    401 401 404 404 404 404 404 404 403 401 401
  post /v1/ticket-links/decide                                  401 401 422 422 422 422 422 422 403 401 401
`);

function read(table: string): Record<string, string> {
  const lines = table.trim().split(/\n\s*/);
  return Object.fromEntries(lines.map((line) => line.split(/ {2,}/)));
}
