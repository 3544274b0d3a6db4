import { startPaymentServerA } from './a/provider';
import { startPaymentServerB } from './b/provider';
import { startShop } from './shop';

/**
 * Both payment providers and the page of the buyer in one process: `npm start` is ready sooner than
 * with three.
 */
export const main = () =>
  Promise.all([
    startPaymentServerA(process.env),
    startPaymentServerB(process.env),
    startShop(process.env),
  ]);
