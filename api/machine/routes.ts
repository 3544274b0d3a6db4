import * as answers from '../answers/machine';
import { openProviderKey } from '../answers/provider-keys';
import { controlPlane, controlPlaneOfBatch } from '../http/access';
import { route } from '../http/route';
import { batch } from './batch';
import {
  batchBody,
  callerBody,
  extendBody,
  personBody,
  providerKeyBody,
  redeemBody,
  reserveBody,
  settleBody,
  verifyBody,
} from './bodies';
import { extend, redeem, reserve, settle } from './handlers';
import { funds, person, verify } from './identities';
import { openKey } from './provider-keys';

export const gatewayRoutes = [
  route({
    method: 'post',
    path: '/v1/gateway/wallets/reserve',
    access: controlPlane,
    input: reserveBody,
    handler: reserve,
    summary:
      'Reserve the estimated cost of a request from the first wallet of user, team, organization that covers it.',
    answer: answers.reservation,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/wallets/settle',
    access: controlPlane,
    input: settleBody,
    handler: settle,
    summary: 'Settle a reservation to its real cost, once, however often it is said.',
    answer: answers.settlement,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/wallets/redeem-ticket',
    access: controlPlane,
    input: redeemBody,
    handler: redeem,
    summary:
      'Run the reserve of a cost ticket again for one call; with wait_ms wait that long for money, oldest call first.',
    answer: answers.reservation,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/wallets/extend',
    access: controlPlane,
    input: extendBody,
    handler: extend,
    summary: 'Keep reservations of long requests alive.',
    answer: answers.extensions,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/wallets/batch',
    access: controlPlaneOfBatch,
    input: batchBody,
    handler: batch,
    summary:
      'Many reserves, settlements and extensions in one call; the answer is one NDJSON line an item, as each is done.',
  }),
  route({
    method: 'post',
    path: '/v1/gateway/keys/verify',
    access: controlPlane,
    input: verifyBody,
    handler: verify,
    summary: 'Who a gateway key is, if it is valid now.',
    answer: answers.keyOwner,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/keys/funds',
    access: controlPlane,
    input: callerBody,
    handler: funds,
    summary: 'What a caller whom the gateway knows may still spend, and which wallet would pay.',
    answer: answers.keyFunds,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/people/verify',
    access: controlPlane,
    input: personBody,
    handler: person,
    summary: 'Whom the token of an identity provider stands for.',
    answer: answers.person,
  }),
  route({
    method: 'post',
    path: '/v1/gateway/provider-keys',
    access: controlPlane,
    input: providerKeyBody,
    handler: openKey,
    summary:
      'One key of a provider, for the memory of a gateway alone: the own one of an organization, or one of the platform.',
    answer: openProviderKey,
  }),
];
