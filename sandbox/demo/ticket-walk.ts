import type { Demo } from './facts';

/**
 * The commands that walk a person through a cost ticket, in order; `ask` waits in one terminal for
 * `approve` in another.
 */
interface TicketWalk {
  drain: string;
  ask: string;
  approve: string;
  refill: string;
}

const json = "-H 'content-type: application/json'";
const HOLD_MS = 300_000;

/**
 * Shell commands with the addresses and keys of a running copy; each reads its values when it is
 * run.
 */
export function ticketWalk(demo: Demo): TicketWalk {
  const { api_url, gateway_url, keys, savings_team_id } = demo;
  const billing = `-H 'authorization: Bearer ${keys.billing_admin}'`;
  const move = (verb: string, amount: string) =>
    `curl -sS ${api_url}/v1/wallets/${verb} ${billing} ${json} \\\n    -d "{\\"team_id\\": \\"${savings_team_id}\\", \\"amount\\": ${amount}}"`;
  const read = (path: string, pattern: string) =>
    `$(curl -sS '${api_url}${path}' ${billing} | sed -n 's/${pattern}/\\1/p')`;
  const org_balance = read('/v1/wallets/balance', '.*"org_balance":\\([^,]*\\).*');
  const saved = read(
    `/v1/wallets/balance?team_id=${savings_team_id}`,
    '.*"team_balance":\\([^,]*\\).*',
  );
  const ticket = read('/v1/cost-tickets?status=open&per_page=1', '.*"id":"\\(ticket_[^"]*\\)".*');
  return {
    drain: move('allocate', org_balance),
    ask: `curl -sS ${gateway_url}/v1/chat/completions -H 'authorization: Bearer ${keys.gateway}' ${json} -H 'x-svc-hold-ms: ${HOLD_MS}' \\\n    -d '{"model": "${demo.models[0]}", "messages": [{"role": "user", "content": "Who pays for this?"}]}'`,
    approve: `curl -sS ${api_url}/v1/cost-tickets/${ticket}/approve ${billing} ${json} \\\n    -d '{"note": "go ahead"}'`,
    refill: move('reclaim', saved),
  };
}
