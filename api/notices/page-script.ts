/** The script of the page of approvals. All that it shows of others it writes as text. */
export const script = `'use strict';
const at = (id) => document.getElementById(id);
const nonce = document.querySelector('meta[name=page-nonce]').content;
const asked = new URLSearchParams(location.hash.slice(1));
// The link is in this page's memory from here on, not in the history of the browser.
history.replaceState(null, '', location.pathname);
let key = null;

const tell = (text) => { at('news').textContent = text; };

async function call(method, path, body) {
  const answer = await fetch(path, {
    method,
    cache: 'no-store',
    credentials: 'omit',
    keepalive: true,
    headers: { ...(body && { 'content-type': 'application/json' }), ...(key && { authorization: 'Bearer ' + key }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error ? value.error.message : 'Status ' + answer.status);
  return value;
}

// A small number as text would have an exponent.
const digits = new Intl.NumberFormat('en', { maximumFractionDigits: 9, useGrouping: false });
const inUnits = (amount, currency) => amount === null || amount === undefined ? null : digits.format(amount) + ' ' + currency;

// How people call who decided; the id if there is no name for it.
async function nameOf(id) {
  if (!id) return id;
  const { names } = await call('GET', '/v1/names?ids=' + encodeURIComponent(id));
  return names.length === 0 ? id : names[0].name;
}

async function show(ticket) {
  const decider = await nameOf(ticket.decided_by);
  const money = (amount) => inUnits(amount, ticket.currency);
  // Where budgets alone are short, no wallet pays for what is missing.
  const is_of_budgets = ticket.cause === 'budget' && ticket.shortfall === 0;
  const budgets = (ticket.budgets || []).map((one) => ['Missing in the budget of the ' + one.owner_type,
    money(one.missing) + ' of ' + money(one.limit) + (one.window === 'life' ? ' in all' : ' a ' + one.window)]);
  const facts = {
    Ticket: ticket.id, Status: ticket.status, Model: ticket.model, Provider: ticket.provider,
    'Estimated cost': money(ticket.estimated_cost), Missing: is_of_budgets ? null : money(ticket.shortfall),
    ...Object.fromEntries(budgets),
    'Asked by': ticket.asked_by, Opened: ticket.created_at, Ends: ticket.expires_at,
    'Decided by': decider, Decided: ticket.decided_at, Note: ticket.note,
  };
  at('facts').replaceChildren();
  for (const [name, value] of Object.entries(facts)) {
    if (value === null || value === undefined) continue;
    at('facts').append(element('dt', name), element('dd', String(value)));
  }
  const sources = [['', 'as usual'], ...(ticket.wallets || []).filter((one) => one.owner_type !== 'user')
    .map((one) => [one.wallet_id, one.owner_type + ', balance ' + money(one.balance)])];
  at('from').replaceChildren(...sources.map(([value, text]) => Object.assign(element('option', text), { value })));
  at('source').hidden = ticket.status !== 'open' || is_of_budgets;
  at('ticket').hidden = false;
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function button(text, run) {
  const made = element('button', text);
  made.type = 'button';
  made.addEventListener('click', () => attempt(async () => {
    for (const one of at('verdicts').children) one.disabled = true;
    try { await run(); } finally { for (const one of at('verdicts').children) one.disabled = false; }
  }));
  return made;
}

const attempt = (run) => run().catch((error) => tell(error.message));
const source = () => at('from').value ? { from_wallet_id: at('from').value } : {};

async function openLink(link) {
  const found = await call('POST', '/v1/ticket-links/look', { link });
  await show(found.ticket);
  at('verdicts').replaceChildren();
  if (found.is_dead) return tell('This link is used up. The ticket is ' + found.ticket.status + '.');
  const is_approval = found.verdict === 'approved';
  if (!is_approval) at('source').hidden = true;
  tell('Confirm, and the ticket is ' + found.verdict + '.');
  at('verdicts').append(button(is_approval ? 'Approve' : 'Deny', async () => {
    const done = await call('POST', '/v1/ticket-links/decide', { link, nonce, ...(is_approval ? source() : {}) });
    at('verdicts').replaceChildren();
    await show(done.ticket);
    tell((done.is_first ? 'Done: the ticket is ' : 'It was decided before: the ticket is ') + done.ticket.status + '.');
  }));
}

async function openTicket(id) {
  const path = '/v1/cost-tickets/' + encodeURIComponent(id);
  const ticket = await call('GET', path);
  await show(ticket);
  tell('The ticket is ' + ticket.status + '.');
  at('verdicts').replaceChildren();
  if (ticket.status !== 'open') return;
  const decide = async (verdict, body) => {
    const after = await call('POST', path + '/' + verdict, body);
    at('verdicts').replaceChildren();
    await show(after);
    tell('Done: the ticket is ' + after.status + '.');
  };
  at('verdicts').append(button('Approve', () => decide('approve', source())), button('Deny', () => decide('deny', {})));
}

async function openInbox() {
  const { tickets, total } = await call('GET', '/v1/cost-tickets?status=open&per_page=100');
  tell(total + ' tickets are open.');
  at('inbox').replaceChildren(...tickets.map((ticket) => {
    const item = document.createElement('li');
    item.append(button(ticket.model + ', ' + inUnits(ticket.estimated_cost, ticket.currency), () => openTicket(ticket.id)));
    return item;
  }));
}

function open() {
  if (asked.has('link')) return openLink(asked.get('link'));
  if (asked.has('ticket')) return openTicket(asked.get('ticket'));
  return openInbox();
}

at('sign-in').addEventListener('submit', (event) => {
  event.preventDefault();
  attempt(async () => {
    const given = at('credential').value.trim();
    const session = await call('POST', '/v1/sessions', given.startsWith('svc_otc_') ? { one_time_code: given } : { access_key: given });
    key = session.key;
    at('credential').value = '';
    at('sign-in').hidden = true;
    await open();
  });
});
// The session is of this page alone, and ends with it. A page that comes back asks anew.
addEventListener('pagehide', () => {
  if (key === null) return;
  call('DELETE', '/v1/sessions/current').catch(() => undefined);
  key = null;
  at('ticket').hidden = true;
  at('inbox').replaceChildren();
  at('sign-in').hidden = false;
});
tell(asked.has('link') ? 'A request waits for your decision.' : '');
`;
