const { default: Sequencer } = require('@jest/test-sequencer');
const slow = require('./slow-tests.cjs');

/**
 * The slowest files first, whatever Jest remembers of earlier runs: in a fresh clone it knows
 * nothing, and one begun last is left alone.
 */
module.exports = class SlowFirst extends Sequencer {
  sort(tests) {
    const placeOf = ({ path }) => {
      const place = slow.findIndex((end) => path.endsWith(end));
      return place === -1 ? slow.length : place;
    };
    return [...super.sort(tests)].sort((one, other) => placeOf(one) - placeOf(other));
  }
};
