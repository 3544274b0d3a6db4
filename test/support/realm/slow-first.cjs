const { basename } = require('node:path');
const { default: Sequencer } = require('@jest/test-sequencer');

// Those that start processes, wait for time to pass, or play hundreds of orders. Begun last, one of them would be left alone.
const slow = ['kill-payments', 'start', 'payment-interleavings', 'kill', 'ticket-queue'];

/** The slowest files first, whatever Jest remembers of earlier runs: in a fresh clone it knows nothing. */
module.exports = class SlowFirst extends Sequencer {
  sort(tests) {
    const placeOf = ({ path }) => {
      const place = slow.indexOf(basename(path, '.test.ts'));
      return place === -1 ? slow.length : place;
    };
    return [...super.sort(tests)].sort((one, other) => placeOf(one) - placeOf(other));
  }
};
