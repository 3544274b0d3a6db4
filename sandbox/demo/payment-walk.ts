import type { Demo } from './facts';

/**
 * The commands of a top-up, in order. Between `create` and `confirm` a person pays at the address
 * that `create` prints.
 */
interface PaymentWalk {
  create: string;
  confirm: string;
  history: string;
  refund: string;
  switch_provider: string;
}

const json = "-H 'content-type: application/json'";

/**
 * Shell commands with the addresses and keys of a running copy. The answer of `create` is kept in
 * `file` for those after it.
 */
export function paymentWalk(demo: Demo, file: string): PaymentWalk {
  const { api_url, keys, return_url, cancel_url } = demo;
  const kept = `'${file.replaceAll("'", "'\\''")}'`;
  const billing = `-H 'authorization: Bearer ${keys.billing_admin}'`;
  const admin = `-H 'authorization: Bearer ${keys.platform_admin}'`;
  const read = (pattern: string, wanted: string) =>
    `"$(sed -n 's|${pattern}|${wanted}|p' ${kept})"`;
  const member = (name: string) => `"${name}":"\\([^"]*\\)"`;
  const session = `.*${member('payment_session_id')}.*`;
  const confirmation = `.*${member('payment_session_id')},${member('provider')},"approval_url":"[^"]*[=/]\\([^"]*\\)","expires_at".*${member('checkout_state')}.*`;
  const checkout = JSON.stringify({
    amount: 25,
    target_wallet_owner_type: 'organization',
    surface: 'console',
    return_url,
    cancel_url,
  });
  const confirmed =
    '{"payment_session_id":"\\1","provider":"\\2","provider_session_token":"\\3","checkout_state":"\\4"}';
  return {
    create: `curl -sS ${api_url}/v1/payments/create-checkout ${billing} ${json} \\\n    -d '${checkout}' | tee ${kept}`,
    confirm: `curl -sS ${api_url}/v1/payments/confirm-checkout ${billing} ${json} \\\n    -d ${read(confirmation, confirmed)}`,
    history: `curl -sS '${api_url}/v1/payments/history?per_page=5' ${billing}`,
    refund: `curl -sS ${api_url}/v1/admin/payments/refund ${admin} ${json} \\\n    -d ${read(session, '{"payment_session_id":"\\1","reason":"just a try"}')}`,
    switch_provider: `curl -sS -X PUT ${api_url}/v1/admin/payments/config ${admin} ${json} \\\n    -d '{"active_provider":"payment_provider_b"}'`,
  };
}
