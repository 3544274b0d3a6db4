import * as answers from '../answers/machine';
import { controlPlane } from '../http/access';
import { route } from '../http/route';
import { batch } from './batch';
import { batchBody, extendBody, redeemBody, reserveBody, settleBody, verifyBody } from './bodies';
import { extend, redeem, reserve, settle, verify } from './handlers';

export const gatewayRoutes = [
  route('post', '/v1/gateway/wallets/reserve', controlPlane, reserveBody, reserve, {
    summary:
      'Reserve the estimated cost of a request from the first wallet of user, team, organization that covers it.',
    answer: answers.reservation,
  }),
  route('post', '/v1/gateway/wallets/settle', controlPlane, settleBody, settle, {
    summary: 'Settle a reservation to its real cost, once, however often it is said.',
    answer: answers.settlement,
  }),
  route('post', '/v1/gateway/wallets/redeem-ticket', controlPlane, redeemBody, redeem, {
    summary:
      'Run the reserve of a cost ticket again for one call; with wait_ms wait that long for money, oldest call first.',
    answer: answers.reservation,
  }),
  route('post', '/v1/gateway/wallets/extend', controlPlane, extendBody, extend, {
    summary: 'Keep reservations of long requests alive.',
    answer: answers.extensions,
  }),
  route('post', '/v1/gateway/wallets/batch', controlPlane, batchBody, batch, {
    summary:
      'Many reserves, settlements and extensions in one call; the answer is one NDJSON line an item, as each is done.',
  }),
  route('post', '/v1/gateway/keys/verify', controlPlane, verifyBody, verify, {
    summary: 'Who a gateway key is, if it is valid now.',
    answer: answers.keyOwner,
  }),
];
