import type { Demo, Printed } from './facts';
import { paymentWalk } from './payment-walk';
import { ticketWalk } from './ticket-walk';

/** The text that `npm start` prints when everything runs. */
export function welcome(demo: Demo, more: Printed): string {
  const { wallet_id, is_priced, log_folder, checkout_file } = more;
  const { keys, api_url, gateway_url } = demo;
  const json = "-H 'content-type: application/json'";
  const chat = (flags: string, more: string) =>
    `curl ${flags} ${gateway_url}/v1/chat/completions -H 'authorization: Bearer ${keys.gateway}' ${json} \\\n    -d '{"model": "${demo.models[0]}", ${more}"messages": [{"role": "user", "content": "Say hello."}]}'`;
  const ledger = `curl -sS '${api_url}/v1/wallets/${wallet_id}/transactions?per_page=5' -H 'authorization: Bearer ${keys.billing_admin}'`;
  const walk = ticketWalk(demo);
  const rows = (entries: [string, string | null][]) =>
    entries.map(([name, value]) => `  ${name.padEnd(15)} ${value ?? 'not ours'}`).join('\n');
  return `
Open the console, where you approve calls, top up and see what things cost. This link signs you in once:
  ${demo.console_sign_in_url}

${rows([
  ['Console', demo.console_url],
  ['API', `${demo.api_urls.join(' ')}  (its pages: ${api_url}/docs)`],
  ['Gateway', demo.gateway_urls.join(' ')],
  ['Temporal', `${demo.temporal_address}  (its page: ${demo.temporal_ui_url ?? 'not ours'})`],
  ['PostgreSQL', demo.database_url],
  ['Sandbox models', demo.sandbox.models_url],
  ['Sandbox tools', `${demo.sandbox.mcp_url}  (MCP; priced through ${gateway_url}/mcp)`],
  [
    'Sandbox payment',
    `${demo.sandbox.payment_provider_a_url} (provider A)  ${demo.sandbox.payment_provider_b_url} (provider B)`,
  ],
  [
    'Sandbox sign-in',
    `${demo.sandbox.identity_url}  (client ${demo.identity.client_id}; people: ${demo.identity.people.map(({ login }) => login).join(', ')})`,
  ],
  ['Logs', `${log_folder}  (a line a request in gateway.log and api.log)`],
])}

Keys
${rows(Object.entries(keys))}

${is_priced ? 'A priced request' : `A request (${demo.provider} ${demo.models[0]} has no price yet: POST /v1/admin/model-pricing)`}:
  ${chat('-sS', '')}

The same as a stream:
  ${chat('-sSN', '"stream": true, ')}

The ledger that shows both, newest first (a stream settles just after its end: give it a second):
  ${ledger}

A request that no wallet covers waits for a person. Put the wallet's money aside:
  ${walk.drain}

This call hangs now, for five minutes at most:
  ${walk.ask}

Approve it in a second terminal, and watch the first one answer:
  ${walk.approve}

Give the wallet its money back (the next npm start does it too):
  ${walk.refill}

${topUp(demo, checkout_file)}

All of this is in demo.json of the data directory. Ctrl-C stops everything.
`;
}

/** The top-up, by a click and by commands. */
function topUp(demo: Demo, checkout_file: string): string {
  const walk = paymentWalk(demo, checkout_file);
  return `Top up by a click; a call that waits for money goes on by it, too:
  ${demo.sandbox.shop_url}/

The same by hand. Make a checkout, and open the approval_url that it answers in a browser:
  ${walk.create}

Once it is paid there the provider's webhook completes it; this asks at once, as often as you like:
  ${walk.confirm}

What became of it:
  ${walk.history}

Send it back to its buyer:
  ${walk.refund}

The next checkout at the other provider:
  ${walk.switch_provider}`;
}
