import { until } from '../until';
import { api, demo } from './visitor';

export interface Wallet {
  wallet_id: string;
  balance: number;
  reserved: number;
  owner_type: string;
  owner_team_id: string | null;
  owner_user_id: string | null;
}

/** The demo's wallets. */
export async function wallets(): Promise<Wallet[]> {
  const { keys } = demo();
  const found = await api<{ wallets: Wallet[] }>(keys.billing_admin, 'GET', '/v1/wallets');
  return found.wallets;
}

/** The organization's wallet. */
export async function bank(): Promise<Wallet> {
  return (await wallets()).find(({ owner_type }) => owner_type === 'organization') as Wallet;
}

/** Brings all money back to the organization. */
export async function refill(): Promise<void> {
  for (const { balance: amount, owner_team_id, owner_user_id } of await wallets()) {
    if (amount <= 0 || (owner_team_id ?? owner_user_id) === null) continue;
    const owner = owner_team_id ? { team_id: owner_team_id } : { user_id: owner_user_id };
    const { keys } = demo();
    await api(keys.billing_admin, 'POST', '/v1/wallets/reclaim', { ...owner, amount });
  }
}

/**
 * Puts all money aside, where no call draws on it, so that the next call waits. First all calls
 * before it are settled: what one of them holds too much would come back and pay for the next.
 */
export async function drain(): Promise<void> {
  await until(async () => (await wallets()).every(({ reserved }) => reserved === 0));
  await refill();
  const { keys, savings_team_id: team_id } = demo();
  const body = { team_id, amount: (await bank()).balance };
  await api(keys.billing_admin, 'POST', '/v1/wallets/allocate', body);
}

let asked = 0;

/** A call of the demo's key that is held until somebody decides; the status of its answer. */
export async function call(): Promise<{ status: number; text: string }> {
  const { gateway_url, keys, models } = demo();
  asked += 1;
  const answer = await fetch(`${gateway_url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${keys.gateway}`,
      'content-type': 'application/json',
      'x-svc-hold-ms': '600000',
    },
    body: JSON.stringify({
      model: models[0],
      messages: [{ role: 'user', content: `Question ${asked} of the console's tests.` }],
    }),
  });
  return { status: answer.status, text: await answer.text() };
}

/** Waits for what is there only while a call waits: fails with its answer if it has one. */
export async function whileHeld<T>(held: ReturnType<typeof call>, wanted: Promise<T>): Promise<T> {
  const answered = held.then(({ status, text }) => {
    throw new Error(`The call was answered meanwhile: ${status} ${text}`);
  });
  return Promise.race([wanted, answered]);
}
