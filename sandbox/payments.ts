import { startPaymentServerA } from './payment-provider-a';
import { startPaymentServerB } from './payment-provider-b';
import { startShop } from './payment-shop';

/** Both payment providers and the page of the buyer in one process: `npm start` is ready sooner than with three. */
export const main = () =>
  Promise.all([
    startPaymentServerA(process.env),
    startPaymentServerB(process.env),
    startShop(process.env),
  ]);
