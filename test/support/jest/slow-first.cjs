const { default: Sequencer } = require('@jest/test-sequencer');
const { slow, idle } = require('./slow-tests.cjs');

// The slow files from the longest on, with an idle one after each but the first two.
const begin = slow.flatMap((file, at) => (at < 2 ? [file] : [file, idle[at - 2]])).filter(Boolean);
const order = [...begin, ...idle.filter((file) => !begin.includes(file))];

/**
 * The slowest files first, whatever Jest remembers of earlier runs: in a fresh clone it knows
 * nothing, and one begun last is left alone.
 */
module.exports = class SlowFirst extends Sequencer {
  sort(tests) {
    const placeOf = ({ path }) => {
      const place = order.findIndex((end) => path.endsWith(end));
      return place === -1 ? order.length : place;
    };
    return [...super.sort(tests)].sort((one, other) => placeOf(one) - placeOf(other));
  }
};
