import { type Role, rolePermissions } from '../../../domain/people/roles';
import { pressFirst } from '../payments/sandbox';
import { api, demo } from './visitor';

/** An organization of one test file, whose money no other file moves. */
export interface TestOrganization {
  id: string;
  name: string;
  wallet_id: string;
  /** The person who makes calls. */
  member: { user_id: string; name: string };
  keys: { owner: string; billing_admin: string; member: string; gateway: string };
}

/** Makes an organization with people, their keys, and so much money. */
export async function makeOrganization(name: string, funds: number): Promise<TestOrganization> {
  const admin = demo().keys.platform_admin;
  const { id } = await api<{ id: string }>(admin, 'POST', '/v1/admin/organizations', { name });
  const token = (body: object) =>
    api<{ key: string }>(admin, 'POST', '/v1/tokens', { org_id: id, ...body });
  const person = async (role: Role) => {
    const made = { name: `${role} of ${name}`, role };
    const route = `/v1/organizations/${id}/members`;
    const { user_id } = await api<{ user_id: string }>(admin, 'POST', route, made);
    const key = { name: role, token_type: 'access', scopes: rolePermissions[role], user_id };
    return { user_id, name: made.name, key: (await token(key)).key };
  };
  const owner = await person('owner');
  const billing = await person('billing_admin');
  const member = await person('member');
  const gateway = { name: 'calls', token_type: 'gateway', user_id: member.user_id };
  const { wallet } = await api<{ wallet: { wallet_id: string } }>(
    admin,
    'POST',
    '/v1/wallets/credit',
    { org_id: id, target_wallet_owner_type: 'organization', amount: funds },
  );
  await api(admin, 'PUT', '/v1/payments/settings', {
    org_id: id,
    return_origins: [demo().console_url],
  });
  return {
    id,
    name,
    wallet_id: wallet.wallet_id,
    member,
    keys: {
      owner: owner.key,
      billing_admin: billing.key,
      member: member.key,
      gateway: (await token(gateway)).key,
    },
  };
}

/** A call that ends, with tags; its id. */
export async function makeCall(
  { keys }: TestOrganization,
  content: string,
  tags = '',
): Promise<string> {
  const { gateway_url, models } = demo();
  const answer = await fetch(`${gateway_url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${keys.gateway}`,
      'content-type': 'application/json',
      ...(tags === '' ? {} : { 'x-svc-tags': tags }),
    },
    body: JSON.stringify({ model: models[0], messages: [{ role: 'user', content }] }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return answer.headers.get('x-svc-request-id') as string;
}

/** A top-up of the organization that is paid and credited; its session's id. */
export async function makeTopUp({ keys }: TestOrganization, amount: number): Promise<string> {
  const { console_url } = demo();
  const checkout = await api<Record<string, string>>(
    keys.billing_admin,
    'POST',
    '/v1/payments/create-checkout',
    {
      amount,
      target_wallet_owner_type: 'organization',
      surface: 'console',
      return_url: `${console_url}/top-up/return`,
      cancel_url: `${console_url}/top-up`,
    },
  );
  const { payment_session_id, provider, checkout_state, approval_url } = checkout;
  const paid = await pressFirst(approval_url as string);
  const back = new URL(paid.headers.get('location') as string);
  await api(keys.billing_admin, 'POST', '/v1/payments/confirm-checkout', {
    payment_session_id,
    provider,
    checkout_state,
    provider_session_token: back.searchParams.get('token'),
  });
  return payment_session_id as string;
}
