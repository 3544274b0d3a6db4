// Every workflow by its type name. Names are wire contracts: histories hold them.
export { reconcile } from './reconcile';
export { reservationLifetimes, wake } from './reservation-lifetimes';
