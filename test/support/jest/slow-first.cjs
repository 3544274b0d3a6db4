const { default: Sequencer } = require('@jest/test-sequencer');
const { slow, idle } = require('./slow-tests.cjs');

// What kills a whole product under load has idle files beside it and no other slow one: processes
// that start again need the processor. Then come the slow files from the longest on, with an idle
// one after each but the first two.
const BESIDE = 8;
const kill = '/test/whole/kill.test.ts';
const others = slow.filter((file) => file !== kill);
const left = idle.slice(BESIDE);
const mixed = others.flatMap((file, at) => (at < 2 ? [file] : [file, left[at - 2]]));
const order = [kill, ...idle.slice(0, BESIDE), ...mixed, ...left].filter(Boolean);

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
