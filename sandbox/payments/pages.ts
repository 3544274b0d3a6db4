import * as desk from './desk';
import type { Order } from './store';
import type { HostedPage, ProviderRequest, ProviderResponse, Wire } from './wire';

const button = /^\/checkout\/([^/]+)\/(pay|decline|cancel)$/;

/** Answers a hosted page or one of its buttons; undefined if the path is neither. */
export function showPage(wire: Wire, request: ProviderRequest): ProviderResponse | undefined {
  const pressed = request.method === 'POST' ? button.exec(request.path) : null;
  const id = pressed?.[1] ?? (request.method === 'GET' ? wire.page.orderId(request) : undefined);
  if (id === undefined) return undefined;
  const order = wire.desk.store.orders.get(id);
  if (!order) return page(wire, 404, '<h1>No such payment</h1><p>The link is wrong.</p>');
  desk.expireIfDue(wire.desk, order);
  if (!pressed) return answerPage(wire, order);
  if (pressed[2] === 'cancel') return redirect(wire.page.cancelUrl(order));
  if (pressed[2] === 'decline') return press(wire, order, false);
  return press(wire, order, desk.pay(wire.desk, order));
}

/** The address that the buyer is sent to; null if the page stays. */
export function landing(wire: Wire, order: Order, is_canceled: boolean): string | null {
  if (is_canceled) return wire.page.cancelUrl(order);
  const is_over = order.status === 'approved' || order.status === 'paid';
  return is_over ? wire.page.returnUrl(order) : null;
}

function press(wire: Wire, order: Order, is_paid: boolean): ProviderResponse {
  if (!is_paid) desk.decline(wire.desk, order);
  const target = landing(wire, order, false);
  return target === null ? answerPage(wire, order) : redirect(target);
}

function redirect(location: string): ProviderResponse {
  return { status: 303, headers: { location } };
}

function answerPage(wire: Wire, order: Order): ProviderResponse {
  const back = `<p><a class="button" href="${escaped(wire.page.returnUrl(order))}">Return to the shop</a></p>`;
  if (order.status === 'expired') {
    const away = `<p><a class="button" href="${escaped(wire.page.cancelUrl(order))}">Return to the shop</a></p>`;
    return page(wire, 200, `<h1>This checkout has expired</h1><p>Nothing was paid.</p>${away}`);
  }
  if (order.status === 'paid')
    return page(wire, 200, `${sum(wire, order)}<p class="good">Paid.</p>${back}`);
  const notice = order.is_declined
    ? '<p class="bad" role="alert">Your card was declined. Try again with another one.</p>'
    : order.status === 'approved'
      ? '<p class="good">You have approved this payment; the shop takes it next.</p>'
      : '';
  const form = (verb: string, label: string, kind: string) =>
    `<form method="post" action="/checkout/${encodeURIComponent(order.id)}/${verb}"><button class="button ${kind}">${label}</button></form>`;
  return page(
    wire,
    200,
    `${sum(wire, order)}${notice}${form('pay', `Pay ${escaped(wire.page.amountText(order))}`, 'pay')}
<div class="others">${form('decline', 'Pay with a card that is declined', '')}${form('cancel', 'Cancel and go back', '')}</div>`,
  );
}

function sum(wire: Wire, order: Order): string {
  const money = `<p class="money">${escaped(wire.page.amountText(order))}</p>`;
  return `<h1>${escaped(order.description)}</h1>${money}`;
}

function page({ page: look }: Wire, status: number, content: string): ProviderResponse {
  return { status, body: htmlPage(look, content) };
}

/** A whole page of the sandbox: plain, and without anything from elsewhere. */
export function htmlPage({ name, colour }: Pick<HostedPage, 'name' | 'colour'>, content: string) {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(name)}</title><style>${style(colour)}</style></head>
<body><main><header>${escaped(name)}</header><section>${content}</section>
<footer>A sandbox on your own machine: no money moves.</footer></main></body></html>
`;
}

function style(colour: string): string {
  return `*{box-sizing:border-box}body{margin:0;background:#f2f4f7;color:#1c2430;font:16px/1.5 system-ui,sans-serif}
main{width:min(26rem,100% - 2rem);margin:8vh auto 2rem;background:#fff;border-radius:14px;box-shadow:0 8px 30px #1c243022;overflow:hidden}
header{background:${colour};color:#fff;padding:1rem 1.75rem;font-weight:600}section{padding:1.5rem 1.75rem}
h1{font-size:1.1rem;font-weight:500;margin:0;overflow-wrap:anywhere}.money{font-size:clamp(1.2rem,6.4vw,1.7rem);font-weight:650;margin:.25rem 0 1.25rem}
form{margin:0}.button{display:block;width:100%;padding:.75rem 1rem;border:1px solid #c8d0da;border-radius:9px;background:#fff;color:inherit;font:inherit;text-align:center;text-decoration:none;cursor:pointer}
.button:hover{background:#f6f8fa}.button:focus-visible{outline:3px solid ${colour}55}.pay{background:${colour};border-color:${colour};color:#fff;font-weight:600}.pay:hover{background:${colour};filter:brightness(1.1)}
.others{display:grid;gap:.6rem;margin-top:.9rem;font-size:.95rem}.good,.bad{padding:.6rem .9rem;border-radius:9px;margin:0 0 1rem}.good{background:#e6f6ec;color:#14532d}.bad{background:#fdeaea;color:#8a1c1c}
footer{padding:.9rem 1.75rem;border-top:1px solid #e6eaef;color:#5b6675;font-size:.85rem}`;
}

export function escaped(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
  return text.replaceAll(/[&<>"]/g, (found) => names[found] as string);
}
